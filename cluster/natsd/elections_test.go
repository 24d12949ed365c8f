package natsd

import (
	"net/netip"
	"net/url"
	"testing"
	"time"
)

// stock and stockCampaign are nats-server's own values, from before the process changed them. They
// are 0 if the linked variables are not nats-server's.
var stock, stockCampaign = minElectionTimeout, maxCampaignTimeout

// TestElectionVariables fails if a new version of nats-server keeps these values elsewhere.
func TestElectionVariables(t *testing.T) {
	if stock != 4*time.Second || stockCampaign != 800*time.Millisecond {
		t.Errorf(
			"nats-server has an election timeout of %s and a campaign timeout of %s, so elections.go has no effect",
			stock,
			stockCampaign,
		)
	}
	shortenElections(-1, 3)
	if maxElectionTimeout > 2*time.Second || minElectionTimeout < 4*hbInterval ||
		maxCampaignTimeout > minElectionTimeout {
		t.Errorf("elections after %s to %s, heartbeats every %s", minElectionTimeout, maxElectionTimeout, hbInterval)
	}
}

// TestElectionTimeoutsAreApart checks that no two servers campaign at once. If the first two
// servers are lost, a leader is elected within two seconds.
func TestElectionTimeoutsAreApart(t *testing.T) {
	for servers := 2; servers <= 7; servers++ {
		var before time.Duration
		for rank := range servers {
			least, most := electionTimeouts(rank, servers)
			if least < 4*heartbeat || most <= least {
				t.Errorf("rank %d of %d: %s to %s", rank, servers, least, most)
			}
			if rank > 0 && least-before < 100*time.Millisecond {
				t.Errorf("rank %d of %d: from %s, but the rank before may wait until %s", rank, servers, least, before)
			}
			if rank == 2 && most > 1500*time.Millisecond {
				t.Errorf("rank %d of %d: until %s", rank, servers, most)
			}
			before = most
		}
	}
}

func TestRank(t *testing.T) {
	local := []netip.Prefix{
		netip.MustParsePrefix("127.0.0.1/8"),
		netip.MustParsePrefix("10.0.0.2/24"),
		netip.MustParsePrefix("fd00::2/64"),
	}
	for name, c := range map[string]struct {
		listen string
		routes []string
		want   int
	}{
		"its address":           {"10.0.0.2:6222", []string{"10.0.0.3:6222", "10.0.0.2:6222", "10.0.0.1:6222"}, 1},
		"ports of one host":     {"127.0.0.1:6224", []string{"127.0.0.1:6222", "127.0.0.1:6223", "127.0.0.1:6224"}, 2},
		"every address":         {"0.0.0.0:6222", []string{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222"}, 1},
		"every address, IPv6":   {"[::]:6222", []string{"[fd00::1]:6222", "[fd00::2]:6222", "[fd00::3]:6222"}, 1},
		"its node's name":       {"0.0.0.0:6222", []string{"gpu-c:6222", "gpu-a:6222", "gpu-b:6222"}, 1},
		"its name in a domain":  {"0.0.0.0:6222", []string{"gpu-b.nodes.svc:6222", "gpu-c.nodes.svc:6222"}, 0},
		"another port":          {"0.0.0.0:6222", []string{"10.0.0.2:6333", "10.0.0.3:6222"}, -1},
		"bound to another":      {"10.0.0.2:6222", []string{"127.0.0.1:6222", "10.0.0.3:6222"}, -1},
		"no matching name":      {"0.0.0.0:6222", []string{"a:6222", "b:6222"}, -1},
		"two matches":           {"0.0.0.0:6222", []string{"10.0.0.2:6222", "127.0.0.1:6222", "c:6222"}, -1},
		"no address to compare": {"somewhere:6222", []string{"a:6222", "somewhere:6222"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var routes []*url.URL
			for _, r := range c.routes {
				routes = append(routes, &url.URL{Scheme: "nats", Host: r})
			}
			if got := (identity{c.listen, []string{"gpu-b", "host"}, local}).rank(routes); got != c.want {
				t.Errorf("rank %d, want %d", got, c.want)
			}
		})
	}
}
