package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Dial connects to an address of the cluster from within its host, so that partitions have no
// effect.
func (c *Cluster) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	host := loopback
	if at, err := netip.ParseAddrPort(address); err == nil && c.Fabric != nil {
		for _, h := range c.Fabric.hosts {
			if h.Addr == at.Addr() {
				host = h
			}
		}
	}
	return host.Dial(ctx, network, address)
}

// NATS returns a connection to the cluster's NATS for control calls. It reconnects after an outage.
func (c *Cluster) NATS() (*nats.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control != nil {
		return c.control, nil
	}
	var urls []string
	if c.Server != nil {
		urls = []string{c.Server.URL()}
	} else {
		for _, n := range c.Nodes {
			if n.embedsNATS() {
				u := url.URL{Scheme: "nats", Host: n.listen["--nats-listen"]}
				urls = append(urls, u.String())
			}
		}
	}
	// Frequent pings are needed since connections to a stopped server look alive.
	conn, err := nats.Connect(strings.Join(urls, ","), nats.Name("troupe test harness"),
		nats.SetCustomDialer(dialer{c}), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.IgnoreDiscoveredServers(), nats.PingInterval(500*time.Millisecond),
		nats.MaxPingsOutstanding(2))
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", urls, err)
	}
	c.control = conn
	return conn, nil
}

type dialer struct{ *Cluster }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.Cluster.Dial(network, address)
}
