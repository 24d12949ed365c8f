package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"troupe/control"
)

// clash checks that what was given goes together.
func (s settings) checkConflicts() error {
	o := s.given
	login := o.NATSCreds != "" || o.NATSNkey != ""
	for _, c := range []struct {
		wrong bool
		say   string
	}{
		{o.Try != "" && len(s.Deployments) == 0, "--try needs a model; list one under deployments: in the file that --config names"},
		{o.Try != "" && (o.APIKeys != "" || o.HTTPTLSCert != ""),
			"--try asks over plain HTTP and without a key; leave it out, or --api-keys and --http-tls-cert"},
		{o.Join != "" && o.NATSListen != "",
			"--join uses the NATS servers of others, so this node has none that could listen; leave out --nats-listen, or --join"},
		{o.NATSClusterListen != "" && o.NATSRoutes == "" && o.Join == "",
			"--nats-cluster-listen is for the NATS servers of other nodes; name them with --nats-routes"},
		{o.Join != "" && (o.NATSRoutes != "" || o.NATSClusterListen != ""),
			"--nats-routes and --nats-cluster-listen are for a NATS server of this node's own, and with --join it has none; leave them out, or --join"},
		{o.Join != "" && o.NATSUsers != "",
			"--nats-users is for a NATS server of this node's own, and with --join it has none; leave it out, or --join"},
		{someNotAll(o.TLSCert, o.TLSKey, o.TLSCA), `--tls-cert, --tls-key and --tls-ca go together; "troupe certs" makes all three`},
		{o.TLSRevoked != "" && o.TLSCert == "", "--tls-revoked is about certificates between nodes; give --tls-cert, --tls-key and --tls-ca too"},
		{someNotAll(o.HTTPTLSCert, o.HTTPTLSKey), "--http-tls-cert and --http-tls-key go together; give both"},
		{o.KVNVMePath != "" && bytesOf(o.KVNVMe) == 0, "--kv-nvme-path is for the space that --kv-nvme gives; say how much: --kv-nvme 20GiB"},
		{o.NATSCreds != "" && o.NATSNkey != "", "--nats-creds and --nats-nkey both say who this node is; give one"},
		{login && o.Join == "" && o.NATSUsers == "",
			"--nats-creds and --nats-nkey say who this node is, and its own NATS server asks nobody; add --nats-users, or --join"},
		{o.NATSUsers != "" && !login,
			`--nats-users counts for this node too; give it one of the users with --nats-nkey ("troupe keys nkey" makes one) or --nats-creds`},
		{drainGraceTooLong(o), "--drain-grace is a part of --drain-timeout, and must be shorter; requests need the rest to finish"},
	} {
		if c.wrong {
			return errors.New(c.say)
		}
	}
	for _, d := range s.Deployments {
		if _, err := control.Normalize(d); err != nil {
			return err
		}
	}
	return nil
}

// drainGraceTooLong reports whether the grace leaves requests no time to finish.
func drainGraceTooLong(o Options) bool {
	grace, err := time.ParseDuration(o.DrainGrace)
	limit, _ := time.ParseDuration(cmp.Or(o.DrainTimeout, defaultDrain))
	return err == nil && grace > 0 && grace >= limit
}

// some reports whether some were given, and not all.
func someNotAll(options ...string) bool {
	n := 0
	for _, o := range options {
		if o != "" {
			n++
		}
	}
	return 0 < n && n < len(options)
}

// reach is the host on which those who are to reach this node do.
func (s settings) listenHost() (string, error) {
	o := s.given
	if o.NATSListen != "" && beyondLoopback(o.NATSListen) {
		host, _, _ := net.SplitHostPort(o.NATSListen)
		return host, nil
	}
	if o.Advertise != "" && !isLoopback(o.Advertise) {
		return "0.0.0.0", nil
	}
	for _, u := range append(parseURLs(o.Join), parseURLs(o.NATSRoutes)...) {
		if !isLoopback(u.Hostname()) {
			return outboundHost(u)
		}
	}
	return loopbackHost, nil
}

// facing is the address of this machine from which another one is checkAddresses. Nothing is sent.
func outboundHost(u *url.URL) (string, error) {
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
	if err != nil {
		return "", fmt.Errorf("%s: %w; name a host that this machine knows", u, err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// listener is an address to listen on, and the option that says so.
type listener struct{ flag, addr string }

// nodeListeners are those at which other nodes and NATS clients connect.
func (s settings) nodeListeners() (all []listener) {
	for _, l := range []listener{
		{"--nats-listen", s.NATSListen}, {"--nats-cluster-listen", s.NATSClusterListen},
		{"--cluster-listen", s.ClusterListen}, {"--data-listen", s.DataListen},
	} {
		if l.addr != "" {
			all = append(all, l)
		}
	}
	return all
}

// checkAddresses checks that other nodes can be told where this one is, and that no two listeners are at one port.
func (s settings) checkAddresses() error {
	used := map[string]string{}
	for _, l := range append([]listener{{"--http", s.HTTP}, {"--metrics-listen", s.MetricsListen}}, s.nodeListeners()...) {
		if l.addr == "" {
			continue
		}
		if _, port, _ := net.SplitHostPort(l.addr); used[l.addr] != "" && port != "0" {
			return fmt.Errorf("%s and %s are both %s; give them different ports", used[l.addr], l.flag, l.addr)
		}
		used[l.addr] = l.flag
	}
	for _, l := range []listener{{"--cluster-listen", s.ClusterListen}, {"--data-listen", s.DataListen}} {
		host, _, _ := net.SplitHostPort(l.addr)
		switch ip := net.ParseIP(host); {
		case s.Advertise == "" && (host == "" || ip.IsUnspecified()):
			return fmt.Errorf("%s %s is every address of this machine; say with --advertise which one others reach: %s", l.flag, l.addr, machineAddresses())
		case s.Advertise != "" && isLoopback(host) && !isLoopback(s.Advertise):
			return fmt.Errorf("--advertise %s, and %s %s is reached by this machine alone; listen on %s:0",
				s.Advertise, l.flag, l.addr, s.Advertise)
		}
	}
	return nil
}

// machineAddresses are those of this machine.
func machineAddresses() string {
	all, _ := net.InterfaceAddrs() // for the hint
	var hosts []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			hosts = append(hosts, n.IP.String())
		}
	}
	return strings.Join(hosts, ", ")
}

// beyond reports whether an address is checkAddresses from other machines.
func beyondLoopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	return !isLoopback(host)
}

func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// hosts are those under which other nodes reach this one.
func (s settings) advertisedHosts() []string {
	if s.Advertise != "" {
		return []string{s.Advertise}
	}
	actors, _, _ := net.SplitHostPort(s.ClusterListen)
	data, _, _ := net.SplitHostPort(s.DataListen)
	return []string{actors, data}
}

// words returns the elements of a list that was checked.
func elements2(list string) (all []string) {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// list are the URLs of a list that was checked, as they are.
func urlStrings(of string) (all []string) {
	for _, u := range parseURLs(of) {
		all = append(all, u.String())
	}
	return all
}

// urls are the NATS servers of a list that was checked.
func parseURLs(list string) (all []*url.URL) {
	for one := range strings.SplitSeq(list, ",") {
		if one != "" {
			u, _ := parseURL(one)
			all = append(all, u)
		}
	}
	return all
}

// parseURL reads nats://HOST:PORT, or HOST:PORT as people write it.
func parseURL(s string) (*url.URL, error) {
	if s = strings.TrimSpace(s); !strings.Contains(s, "://") {
		s = "nats://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
		return nil, fmt.Errorf("%q is not a NATS server; write it like nats://10.0.0.7:4222, several with commas", s)
	}
	return u, nil
}
