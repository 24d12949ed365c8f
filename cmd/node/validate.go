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

// checkConflicts rejects combinations of options that contradict each other or are incomplete.
func (s settings) checkConflicts() error {
	o := s.given
	login := o.NATSCreds != "" || o.NATSNkey != ""
	for _, c := range []struct {
		wrong   bool
		message string
	}{
		{o.Try != "" && len(s.Deployments) == 0,
			"--try needs a model; add one under deployments: in the file of --config"},
		{o.Try != "" && (o.APIKeys != "" || o.HTTPTLSCert != ""),
			"--try uses plain HTTP without a key; remove it, or --api-keys and --http-tls-cert"},
		{o.Join != "" && o.NATSListen != "",
			"--nats-listen needs this node's own NATS server, which --join disables; remove one of them"},
		{o.NATSClusterListen != "" && o.NATSRoutes == "" && o.Join == "",
			"--nats-cluster-listen needs the NATS servers of other nodes; set --nats-routes"},
		{o.Join != "" && (o.NATSRoutes != "" || o.NATSClusterListen != ""),
			"--nats-routes and --nats-cluster-listen need this node's own NATS server, which --join disables; " +
				"remove them, or --join"},
		{o.Join != "" && o.NATSUsers != "",
			"--nats-users needs this node's own NATS server, which --join disables; remove one of them"},
		{someNotAll(o.TLSCert, o.TLSKey, o.TLSCA),
			`--tls-cert, --tls-key and --tls-ca go together; "troupe certs" creates all three`},
		{o.TLSRevoked != "" && o.TLSCert == "",
			"--tls-revoked needs certificates between nodes; set --tls-cert, --tls-key and --tls-ca"},
		{someNotAll(o.HTTPTLSCert, o.HTTPTLSKey), "--http-tls-cert and --http-tls-key go together; set both"},
		{o.KVNVMePath != "" && bytesOf(o.KVNVMe) == 0,
			"--kv-nvme-path needs the size of the tier; set --kv-nvme, such as --kv-nvme 20GiB"},
		{o.NATSCreds != "" && o.NATSNkey != "",
			"--nats-creds and --nats-nkey are alternative credentials of this node; set one"},
		{login && o.Join == "" && o.NATSUsers == "",
			"--nats-creds and --nats-nkey need a NATS server with users; set --nats-users, or --join"},
		{o.NATSUsers != "" && !login,
			`--nats-users applies to this node too; set its user with --nats-nkey ("troupe keys nkey" creates one) ` +
				"or --nats-creds"},
		{drainGraceTooLong(o),
			"--drain-grace is part of --drain-timeout and must be shorter, so that requests can finish"},
	} {
		if c.wrong {
			return errors.New(c.message)
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

// someNotAll reports whether some of the options are set, but not all.
func someNotAll(options ...string) bool {
	n := 0
	for _, o := range options {
		if o != "" {
			n++
		}
	}
	return 0 < n && n < len(options)
}

// listenHost returns the host to listen on so that the other nodes reach this one.
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

// outboundHost returns the local address from which a server is reached. It sends nothing.
func outboundHost(u *url.URL) (string, error) {
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
	if err != nil {
		return "", fmt.Errorf("%s: %w; use a host that this machine can resolve", u, err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// listener is a listen address and its flag.
type listener struct{ flag, addr string }

// nodeListeners returns the addresses for other nodes and NATS clients.
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

// checkAddresses checks that this node has an address to advertise, and that no two listeners share
// a port.
func (s settings) checkAddresses() error {
	used := map[string]string{}
	listeners := []listener{{"--http", s.HTTP}, {"--metrics-listen", s.MetricsListen}}
	for _, l := range append(listeners, s.nodeListeners()...) {
		if l.addr == "" {
			continue
		}
		if _, port, _ := net.SplitHostPort(l.addr); used[l.addr] != "" && port != "0" {
			return fmt.Errorf("%s and %s are both %s; use different ports", used[l.addr], l.flag, l.addr)
		}
		used[l.addr] = l.flag
	}
	for _, l := range []listener{{"--cluster-listen", s.ClusterListen}, {"--data-listen", s.DataListen}} {
		host, _, _ := net.SplitHostPort(l.addr)
		switch ip := net.ParseIP(host); {
		case s.Advertise == "" && (host == "" || ip.IsUnspecified()):
			return fmt.Errorf("%s %s listens on every address of this machine; "+
				"set --advertise to the one that other nodes reach: %s", l.flag, l.addr, machineAddresses())
		case s.Advertise != "" && isLoopback(host) && !isLoopback(s.Advertise):
			return fmt.Errorf("--advertise is %s, but %s %s is reachable only from this machine; listen on %s:0",
				s.Advertise, l.flag, l.addr, s.Advertise)
		}
	}
	return nil
}

// machineAddresses returns the IP addresses of this machine, for hints.
func machineAddresses() string {
	all, _ := net.InterfaceAddrs()
	var hosts []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			hosts = append(hosts, n.IP.String())
		}
	}
	return strings.Join(hosts, ", ")
}

// beyondLoopback reports whether other machines can reach a listen address.
func beyondLoopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	return !isLoopback(host)
}

func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// advertisedHosts returns the hosts at which other nodes reach this one.
func (s settings) advertisedHosts() []string {
	if s.Advertise != "" {
		return []string{s.Advertise}
	}
	actors, _, _ := net.SplitHostPort(s.ClusterListen)
	data, _, _ := net.SplitHostPort(s.DataListen)
	return []string{actors, data}
}

// urlStrings splits a validated list of URLs.
func urlStrings(of string) (all []string) {
	for _, u := range parseURLs(of) {
		all = append(all, u.String())
	}
	return all
}

// parseURLs parses a validated list of NATS servers.
func parseURLs(list string) (all []*url.URL) {
	for one := range strings.SplitSeq(list, ",") {
		if one != "" {
			u, _ := parseURL(one)
			all = append(all, u)
		}
	}
	return all
}

// parseURL parses nats://HOST:PORT, tls://HOST:PORT or HOST:PORT.
func parseURL(s string) (*url.URL, error) {
	if s = strings.TrimSpace(s); !strings.Contains(s, "://") {
		s = "nats://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
		return nil, fmt.Errorf("%q is not a NATS URL; write it like nats://10.0.0.7:4222, several with commas", s)
	}
	return u, nil
}
