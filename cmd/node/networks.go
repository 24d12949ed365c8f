package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// parseNetworks parses a list of networks and single addresses: "10.0.0.0/8,192.0.2.1".
func parseNetworks(text string) (all []netip.Prefix, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		network, err := netip.ParsePrefix(part)
		if address, single := netip.ParseAddr(part); single == nil {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is not a network; write it like 10.0.0.0/8, and several with commas", part)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}
