package quota

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1e9, 0)

func reason(r *Refusal) Reason {
	if r == nil {
		return 0
	}
	return r.Reason
}

func limited(l Limits) Client { return Client{Name: "key:ann", Limits: l, Reported: true} }

func TestClientGetsHalfOfFreePlaces(t *testing.T) {
	l := New(16)
	for _, tc := range []struct {
		client string
		most   int
	}{{"a", 8}, {"b", 4}, {"c", 2}, {"d", 1}, {"e", 1}} {
		n := 0
		for l.Enter(epoch, Client{Name: tc.client}) == nil {
			n++
		}
		if n != tc.most {
			t.Errorf("%s may hold %d of 16 places, want %d", tc.client, n, tc.most)
		}
	}
	if got := reason(l.Enter(epoch, Client{Name: "f"})); got != Full {
		t.Errorf("with all places taken: %d", got)
	}
	for range 8 {
		l.Leave(epoch, "a", 0, 0, 0)
	}
	if _, kept := l.clients["a"]; kept || l.inFlight != 8 {
		t.Errorf("kept %v, %d in flight", kept, l.inFlight)
	}
}

func TestRequestsPerMinute(t *testing.T) {
	l, who := New(100), limited(Limits{RequestsPerMinute: 3})
	for i := range 3 {
		if r := l.Enter(epoch, who); r != nil {
			t.Fatalf("request %d: %v", i, r)
		}
		l.Leave(epoch, who.Name, 0, 0, 0)
	}
	if r := l.Enter(epoch, who); reason(r) != Limit || r.After != 20*time.Second {
		t.Fatalf("the fourth request: %+v", r)
	}
	requests, tokens := l.RateStatus(epoch.Add(10*time.Second), who)
	if requests != (RateStatus{3, 0, 50 * time.Second}) || tokens != (RateStatus{}) {
		t.Errorf("rate status %+v, %+v", requests, tokens)
	}
	if r := l.Enter(epoch.Add(20*time.Second), who); r != nil {
		t.Errorf("after the announced wait: %v", r)
	}
}

func TestTokenLimits(t *testing.T) {
	l, who := New(100), limited(Limits{Tokens: 100, TokensPerMinute: 150})
	enter := func(n int64) Reason {
		if r := l.Enter(epoch, who); r != nil {
			return r.Reason
		}
		r := l.Reserve(epoch, who, n)
		if r != nil {
			l.Leave(epoch, who.Name, 0, 0, 0)
		}
		return reason(r)
	}
	for i, tc := range []struct {
		tokens int64
		want   Reason
	}{{101, TooLarge}, {60, 0}, {41, Limit}, {40, 0}, {1, Limit}} {
		if got := enter(tc.tokens); got != tc.want {
			t.Errorf("%d: %d tokens: %d, want %d", i, tc.tokens, got, tc.want)
		}
	}
	l.Leave(epoch, who.Name, 60, 10, 5) // returns 45
	l.Leave(epoch, who.Name, 40, 30, 10)
	if _, tokens := l.RateStatus(epoch, who); tokens.Remaining != 95 {
		t.Errorf("%d tokens remain, want 150 - 15 - 40", tokens.Remaining)
	}
	if got := enter(96); got != Limit {
		t.Errorf("96 tokens: %d", got)
	}
	if got := enter(95); got != 0 {
		t.Errorf("95 tokens: %d", got)
	}
	if got := l.Usage(epoch)[0].Totals; got != (Totals{Requests: 6, Refused: 4, PromptTokens: 40, OutputTokens: 15}) {
		t.Errorf("counted %+v", got)
	}
}

// exchangeReports makes all ledgers report to all others.
func exchangeReports(now time.Time, all map[string]*Ledger) {
	for from, l := range all {
		for to, other := range all {
			if to != from {
				other.ApplyReport(now, from, 1, l.Usage(now))
			}
		}
	}
}

func TestLimitsHoldClusterWide(t *testing.T) {
	a, b, who := New(100), New(100), limited(Limits{Requests: 4, RequestsPerMinute: 10})
	both := map[string]*Ledger{"a": a, "b": b}
	exchangeReports(epoch, both)
	for range 3 {
		a.Enter(epoch, who)
	}
	b.Enter(epoch, who)
	exchangeReports(epoch, both)
	for node, l := range both {
		if r := l.Enter(epoch, who); reason(r) != Limit {
			t.Errorf("%s: a fifth request in flight: %v", node, r)
		}
		if requests, _ := l.RateStatus(epoch, who); requests.Remaining != 6 {
			t.Errorf("%s: %d requests remain, want 6", node, requests.Remaining)
		}
	}
	exchangeReports(epoch, both)
	if u := b.ClusterUsage(epoch)[0]; u.Requests != 4 || u.Totals.Requests != 4 || u.Totals.Refused != 2 {
		t.Errorf("cluster usage: %+v", u)
	}
	late := New(100)
	late.ApplyReport(epoch, "a", 1, a.Usage(epoch))
	if requests, _ := late.RateStatus(epoch, who); requests.Remaining != 6 {
		t.Errorf("a new gateway knows of %d remaining requests", requests.Remaining)
	}
	b.RemovePeers(func(node string) bool { return node != "a" })
	if r := b.Enter(epoch, who); r != nil {
		t.Errorf("requests of a removed gateway still count: %v", r)
	}
	exchangeReports(epoch, both) // the gateway was partitioned and is back
	if requests, _ := b.RateStatus(epoch, who); requests.Remaining != 5 {
		t.Errorf("%d requests remain after its return", requests.Remaining)
	}
}

// TestRestartedPeerCountersReset checks that a restarted peer's counters start at zero and that its
// earlier usage is not counted twice.
func TestRestartedPeerCountersReset(t *testing.T) {
	l, who := New(100), limited(Limits{RequestsPerMinute: 100})
	l.ApplyReport(epoch, "a", 1, nil)
	for i, tc := range []struct {
		incarnation uint64
		spent, left int64
	}{{1, 10, 90}, {1, 15, 85}, {2, 5, 80}, {1, 99, 80}, {2, 6, 79}} {
		l.ApplyReport(epoch, "a", tc.incarnation,
			[]Usage{{Client: who.Name, Limits: who.Limits, SpentRequests: tc.spent}})
		if requests, _ := l.RateStatus(epoch, who); requests.Remaining != tc.left {
			t.Errorf("%d: %d remain, want %d", i, requests.Remaining, tc.left)
		}
	}
}

// openRequest is a request in flight.
type openRequest struct {
	at       string
	client   string
	reserved int64
}

func TestLedgerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const places = 12
		clients := map[string]Client{"": {Name: "address"}}
		for _, name := range []string{"key:a", "key:b"} {
			clients[name] = Client{Name: name, Reported: true, Limits: Limits{
				Requests:          rapid.Int64Range(0, 4).Draw(t, "requests"),
				Tokens:            rapid.Int64Range(0, 200).Draw(t, "tokens"),
				RequestsPerMinute: rapid.Int64Range(0, 20).Draw(t, "rpm"),
				TokensPerMinute:   rapid.Int64Range(0, 500).Draw(t, "tpm"),
			}}
		}
		names := []string{"", "key:a", "key:b"}
		nodes := []string{"x", "y", "z"}[:rapid.IntRange(1, 3).Draw(t, "nodes")]
		ledgers := map[string]*Ledger{}
		for _, node := range nodes {
			ledgers[node] = New(places)
		}
		exchangeReports(epoch, ledgers)
		now := epoch
		var inFlight []openRequest
		taken := map[string]int64{}                                         // requests of each client since the start
		unseen := map[string]int64{}                                        // admitted since the last exchange
		count := func(at, client string) (all, here, total, tokens int64) { // in flight
			for _, o := range inFlight {
				if o.at == at {
					all++
				}
				if o.client == client {
					total, tokens = total+1, tokens+o.reserved
					if o.at == at {
						here++
					}
				}
			}
			return all, here, total, tokens
		}
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				node, name := rapid.SampledFrom(nodes).Draw(t, "node"), rapid.SampledFrom(names).Draw(t, "client")
				l, who := ledgers[node], clients[name]
				all, here, _, _ := count(node, name)
				refusal := l.Enter(now, who)
				if refusal == nil && (all >= places || here >= max(1, (places-(all-here))/2)) {
					t.Fatalf("places: %s admits request %d of %s, %d in flight", node, here+1, name, all)
				}
				if refusal != nil && name == "" && all < places && here < max(1, (places-(all-here))/2) {
					t.Fatalf("refused without reason: %v", refusal)
				}
				if refusal != nil {
					return
				}
				n := rapid.Int64Range(1, 100).Draw(t, "tokens")
				if refusal := l.Reserve(now, who, n); refusal != nil {
					l.Leave(now, who.Name, 0, 0, 0)
					n = -1
				}
				taken[name]++
				unseen[name]++
				if n < 0 {
					return
				}
				inFlight = append(inFlight, openRequest{node, name, n})
				_, _, total, tokens := count(node, name)
				if len(nodes) > 1 {
					tokens = 0
				}
				slack := unseen[name]
				if len(nodes) == 1 {
					slack = 0
				}
				limit := who.Limits
				if limit.Requests > 0 && total > limit.Requests+slack || limit.Tokens > 0 && tokens > limit.Tokens {
					t.Fatalf("limits: %d requests and %d tokens of %q in flight, limits %+v, %d unseen", total,
						tokens, name, limit, slack)
				}
				most := float64(limit.RequestsPerMinute) * (1 + now.Sub(epoch).Minutes())
				if limit.RequestsPerMinute > 0 && float64(taken[name]) > most+float64(slack)+1e-6 {
					t.Fatalf("excess: %d requests of %q in %s, limit %d per minute, %d unseen", taken[name], name,
						now.Sub(epoch), limit.RequestsPerMinute, slack)
				}
			},
			"leave": func(t *rapid.T) {
				if len(inFlight) == 0 {
					return
				}
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "which")
				o := inFlight[i]
				inFlight = append(inFlight[:i], inFlight[i+1:]...)
				used := rapid.Int64Range(0, o.reserved).Draw(t, "used")
				ledgers[o.at].Leave(now, clients[o.client].Name, o.reserved, used, 0)
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 20000).Draw(t, "ms")) * time.Millisecond)
			},
			"exchange": func(*rapid.T) { exchangeReports(now, ledgers); clear(unseen) },
		})
		for _, o := range inFlight {
			ledgers[o.at].Leave(now, clients[o.client].Name, o.reserved, 0, 0)
		}
		for node, l := range ledgers {
			if l.inFlight != 0 || l.clients["address"] != nil {
				t.Fatalf("conservation: %s has %d requests in flight at the end, %v", node, l.inFlight,
					l.clients["address"])
			}
			for _, u := range l.Usage(now) {
				if u.Requests != 0 || u.Tokens != 0 {
					t.Fatalf("conservation: %s: %+v", node, u)
				}
			}
		}
	})
}

func TestUnreportedClientsAreDropped(t *testing.T) {
	l := New(1000)
	for i := range 10000 {
		who := Client{Name: fmt.Sprint(i)}
		l.Enter(epoch, who)
		l.Leave(epoch, who.Name, 0, 0, 0)
		l.Refused(epoch, who)
		l.RateStatus(epoch, who)
	}
	if n := len(l.clients); n != 0 {
		t.Errorf("%d clients are kept, want 0", n)
	}
}
