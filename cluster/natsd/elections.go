package natsd

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	_ "github.com/nats-io/nats-server/v2/server" // whose variables these are
)

// nats-server has no option for the times of its elections, and waits 4 to 9 s before it replaces a leader that was killed:
// for as long nobody could be found dead, and no lease taken. The times below are for servers in one building.
// TestElections fails where a new version of nats-server does not heed them.

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname maxCampaignTimeout github.com/nats-io/nats-server/v2/server.maxCampaignTimeout
var maxCampaignTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

const (
	heartbeat   = 120 * time.Millisecond
	electAfter  = 600 * time.Millisecond  // without a heartbeat the first server stands for election
	electWithin = 1200 * time.Millisecond // from electAfter on all others do, if it is in vain
	electStep   = 300 * time.Millisecond  // between two turns, where that many fit in
	// A server that has more than the one that stands does not vote for it, and stands itself after at most so long: before the other tries
	// again.
	campaignTimeout = electAfter / 2
)

var electionsOnce sync.Once

// shortenElections must be called before the first server of the process that is in a cluster.
func shortenElections(turn, servers int) {
	electionsOnce.Do(func() {
		hbInterval, maxCampaignTimeout = heartbeat, campaignTimeout
		minElectionTimeout, maxElectionTimeout = electionTimeouts(turn, servers)
	})
}

// electionTimeouts are how long a server goes without a heartbeat before it stands for election, at least and at most. Servers that
// wait for a random time, as Raft has it, divide the votes now and then: each votes for itself, and has that on its disk, before it hears
// of the other. It takes another election then, and who died is not found dead in time. So each waits for its turn, of which
// chance decides a third. A turn below 0 is not known.
func electionTimeouts(turn, servers int) (least, most time.Duration) {
	if turn < 0 {
		return electAfter, electAfter + electWithin/2
	}
	step := min(electStep, electWithin/time.Duration(max(servers-1, 1)))
	least = electAfter + time.Duration(turn)*step
	return least, least + step/3
}

// self is what tells a server's own route from the others'.
type identity struct {
	listen string         // "10.0.0.1:6222", or "0.0.0.0:6222"
	names  []string       // of its host and its node
	local  []netip.Prefix // addresses of its host
}

// turn is the place of a server among all, by the addresses of their routes, which are the same on each; -1 where none, or
// more than one, is its own.
func (s identity) rank(routes []*url.URL) int {
	ordered := slices.SortedFunc(slices.Values(routes), func(a, b *url.URL) int { return cmp.Compare(a.Host, b.Host) })
	turn := -1
	for i, route := range ordered {
		switch {
		case !s.matches(route):
		case turn >= 0:
			return -1
		default:
			turn = i
		}
	}
	return turn
}

func (s identity) matches(route *url.URL) bool {
	bound, err := netip.ParseAddrPort(s.listen)
	if err != nil || route.Host == s.listen || route.Port() != strconv.Itoa(int(bound.Port())) {
		return route.Host == s.listen
	}
	at, err := netip.ParseAddr(route.Hostname())
	if err != nil {
		label, _, _ := strings.Cut(route.Hostname(), ".")
		return slices.Contains(s.names, label)
	}
	return bound.Addr().IsUnspecified() && slices.ContainsFunc(s.local, func(p netip.Prefix) bool { return p.Addr() == at })
}

// here is the self of a server on this host.
func localIdentity(cfg *Config) identity {
	s := identity{listen: cfg.ClusterListen, names: []string{cfg.Name}}
	if host, err := os.Hostname(); err == nil {
		label, _, _ := strings.Cut(host, ".")
		s.names = append(s.names, label)
	}
	local, _ := net.InterfaceAddrs() // without them a route of this host may not be known for its own
	for _, a := range local {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			s.local = append(s.local, p)
		}
	}
	return s
}
