package httpd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// hosts returns the accepted host names, and reports whether requests to an address are checked
// against them.
func (c Config) hosts(address string) (names []string, check bool) {
	names = slices.Clone(c.Hosts)
	check = len(names) > 0 || !c.Keyed && isLoopback(address)
	configured, _, _ := net.SplitHostPort(c.Address)
	machine, _ := os.Hostname()
	label, _, _ := strings.Cut(machine, ".")
	for _, own := range []string{configured, c.Advertise, machine, label} {
		if own != "" {
			names = append(names, own)
		}
	}
	return names, check
}

func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

func listen(what, option, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return nil, fmt.Errorf("%s cannot listen on %s: %w; give another address with %s", what, address, err, option)
}
