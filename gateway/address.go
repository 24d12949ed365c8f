package gateway

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientAddress returns the address that identifies a client without a key. It is the peer's
// address or, if the peer is a trusted proxy, the last untrusted address in X-Forwarded-For or
// Forwarded. An IPv6 client is identified by its /64 network.
func clientAddress(r *http.Request, trusted []netip.Prefix) string {
	peer, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return r.RemoteAddr
	}
	if isTrusted(peer, trusted) {
		peer = forwarded(r.Header, peer, trusted)
	}
	if peer.Is6() {
		network, _ := peer.Prefix(64) // cannot fail: the address has 128 bits
		return network.String()
	}
	return peer.String()
}

// forwarded returns the client that trusted proxies name. If the two headers differ, a proxy has
// passed one of them on unchanged from the client; then the proxy's own address counts.
func forwarded(h http.Header, proxy netip.Addr, trusted []netip.Prefix) netip.Addr {
	list, standard := h.Values("X-Forwarded-For"), h.Values("Forwarded")
	byList, listed := lastUntrusted(strings.Split(strings.Join(list, ","), ","), trusted)
	byStandard, named := lastUntrusted(forwardedFor(strings.Join(standard, ",")), trusted)
	switch {
	case len(list) > 0 && len(standard) > 0 && (byList != byStandard || listed != named):
		return proxy
	case listed:
		return byList
	case named:
		return byStandard
	}
	return proxy
}

// lastUntrusted returns the last address that is not a trusted proxy's. It returns false if there
// is none or a later address is malformed.
func lastUntrusted(hops []string, trusted []netip.Prefix) (netip.Addr, bool) {
	for i := len(hops) - 1; i >= 0; i-- {
		address, ok := parseAddress(strings.TrimSpace(hops[i]))
		if !ok {
			return netip.Addr{}, false
		}
		if !isTrusted(address, trusted) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// forwardedFor returns the values of "for" in a Forwarded header (RFC 7239).
func forwardedFor(header string) (hops []string) {
	for hop := range strings.SplitSeq(header, ",") {
		value := ""
		for pair := range strings.SplitSeq(hop, ";") {
			if name, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.EqualFold(name, "for") {
				value = strings.Trim(v, `"`)
			}
		}
		hops = append(hops, value)
	}
	return hops
}

// parseAddress parses an address with or without a port: 10.0.0.1, 10.0.0.1:80, ::1, [::1],
// [::1]:80.
func parseAddress(text string) (netip.Addr, bool) {
	if pair, err := netip.ParseAddrPort(text); err == nil {
		return pair.Addr().Unmap().WithZone(""), true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return address.Unmap().WithZone(""), err == nil
}

func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(address) {
			return true
		}
	}
	return false
}
