package main

import (
	"strconv"

	"troupe/cluster/troupe"
	"troupe/gateway/web"
)

// webConfig is what the options say about HTTP clients.
func (s settings) webConfig() troupe.WebConfig {
	connections, _ := strconv.Atoi(s.HTTPConns) // checked with the other options; 0: the default
	perAddress, _ := strconv.Atoi(s.HTTPConnsAddress)
	return troupe.WebConfig{
		Limits:  web.Limits{Connections: connections, PerAddress: perAddress},
		Metrics: s.MetricsListen, BodyBytes: bytesOf(s.HTTPMemory),
		Hosts: elements(s.AllowedHosts), Origins: elements(s.AllowedOrigins),
	}
}
