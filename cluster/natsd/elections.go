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

	_ "github.com/nats-io/nats-server/v2/server" // defines the linked variables
)

// nats-server has no option for election timeouts. By default it takes 4 to 9 s to replace a leader
// that was killed, and in that time no member can be declared dead and no lease acquired. The
// values below suit servers in one building. TestElectionVariables fails if a new version of
// nats-server ignores them.

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname maxCampaignTimeout github.com/nats-io/nats-server/v2/server.maxCampaignTimeout
var maxCampaignTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

const (
	heartbeat        = 120 * time.Millisecond
	minCampaignDelay = 600 * time.Millisecond  // the first server campaigns after this time without a heartbeat
	campaignSpread   = 1200 * time.Millisecond // after minCampaignDelay, all others campaign within this time
	rankInterval     = 300 * time.Millisecond  // interval between two ranks, if all fit into campaignSpread
	// A server with a longer log than the candidate's does not vote for it. It campaigns itself
	// within this time, which is before the candidate tries again.
	campaignTimeout = minCampaignDelay / 2
)

var electionsOnce sync.Once

// shortenElections sets nats-server's election timeouts for a server of a rank. It must be called
// before the process starts its first server in a cluster. Later calls do nothing.
func shortenElections(rank, servers int) {
	electionsOnce.Do(func() {
		hbInterval, maxCampaignTimeout = heartbeat, campaignTimeout
		minElectionTimeout, maxElectionTimeout = electionTimeouts(rank, servers)
	})
}

// electionTimeouts returns the minimum and the maximum time that a server waits without a heartbeat
// before it campaigns. With random times, as in Raft, votes sometimes split: two candidates each
// vote for themselves and store that vote before they hear of each other. That costs another
// election, so a dead member is not detected in time. Therefore each server waits according to its
// rank, plus a random part of up to a third of the interval. A negative rank is unknown.
func electionTimeouts(rank, servers int) (shortest, longest time.Duration) {
	if rank < 0 {
		return minCampaignDelay, minCampaignDelay + campaignSpread/2
	}
	step := min(rankInterval, campaignSpread/time.Duration(max(servers-1, 1)))
	shortest = minCampaignDelay + time.Duration(rank)*step
	return shortest, shortest + step/3
}

// identity distinguishes a server's own route from those of the others.
type identity struct {
	listen string         // "10.0.0.1:6222", or "0.0.0.0:6222"
	names  []string       // names of its host and its node
	local  []netip.Prefix // addresses of its host
}

// rank returns the position of the server among all, ordered by route address, so that all servers
// agree on it. It returns -1 if no route, or more than one, matches the server.
func (s identity) rank(routes []*url.URL) int {
	ordered := slices.SortedFunc(slices.Values(routes), func(a, b *url.URL) int { return cmp.Compare(a.Host, b.Host) })
	rank := -1
	for i, route := range ordered {
		switch {
		case !s.matches(route):
		case rank >= 0:
			return -1
		default:
			rank = i
		}
	}
	return rank
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
	return bound.Addr().IsUnspecified() &&
		slices.ContainsFunc(s.local, func(p netip.Prefix) bool { return p.Addr() == at })
}

// localIdentity returns the identity of a server on this host.
func localIdentity(cfg *Config) identity {
	s := identity{listen: cfg.ClusterListen, names: []string{cfg.Name}}
	if host, err := os.Hostname(); err == nil {
		label, _, _ := strings.Cut(host, ".")
		s.names = append(s.names, label)
	}
	local, _ := net.InterfaceAddrs() // after an error, the server may not recognize its own route
	for _, a := range local {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			s.local = append(s.local, p)
		}
	}
	return s
}
