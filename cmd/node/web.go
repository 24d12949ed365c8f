package main

import (
	"net/netip"
	"slices"
	"strconv"

	"troupe/gateway/web"
	"troupe/node"
)

// webConfig returns the configuration of the HTTP server for its clients.
func (s settings) webConfig() node.WebConfig {
	connections, _ := strconv.Atoi(s.HTTPConns) // validated with the other options; 0 means the default
	perAddress, _ := strconv.Atoi(s.HTTPConnectionsPerAddress)
	proxies, _ := parseNetworks(s.TrustedProxies)
	exempt := func(peer netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(peer.Unmap()) })
	}
	return node.WebConfig{
		Limits:  web.Limits{MaxConnections: connections, MaxPerAddress: perAddress, ExemptAddress: exempt},
		Metrics: s.MetricsListen, BodyBytes: bytesOf(s.HTTPMemory),
		Hosts: elements(s.AllowedHosts), Origins: elements(s.AllowedOrigins),
	}
}
