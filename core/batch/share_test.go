package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// clientRequest returns a request of a client; the ID is "client:number".
func clientRequest(id string, class Class, prompt, output int) Request {
	r := request(id, class, prompt, output)
	r.Client, _, _ = strings.Cut(id, ":")
	return r
}

// flood submits n requests of a client.
func (h *harness) flood(t *testing.T, client string, n, prompt, output int, weight float64) {
	t.Helper()
	for i := range n {
		r := clientRequest(fmt.Sprintf("%s:%d", client, i), Standard, prompt, output)
		r.Weight = weight
		if refusal := h.submit(r); refusal != nil {
			t.Fatal(refusal)
		}
	}
}

// runningByClient counts the running sequences by client.
func (h *harness) runningByClient() map[string]int {
	all := make(map[string]int)
	for _, seq := range h.running {
		all[seq.Client]++
	}
	return all
}

func TestGreedyClientIsPreempted(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 100, StepTokens: 64, ContextTokens: 1000}, 1000)
	h.flood(t, "greedy", 20, 4, 900, 0)
	for range 50 {
		h.step(t)
	}
	h.submit(clientRequest("other:0", Standard, 30, 5))
	plan, _ := h.Plan(now)
	if !slices.Contains(ids(plan), "other:0:30") || len(plan.Preempted) != 1 || plan.Preempted[0].ID != "greedy:3" {
		t.Fatalf("step %v, preempted %v: the other client waits for a sequence of 900 tokens", ids(plan),
			plan.Preempted)
	}
}

// TestPlacesConvergeToShares checks that clients with unlimited demand get places in proportion to
// their weights and do not preempt each other in turn.
func TestPlacesConvergeToShares(t *testing.T) {
	for _, tc := range []struct {
		weight float64
		want   string
	}{{1, "map[a:4 b:4]"}, {3, "map[a:6 b:2]"}} {
		h := newHarness(Limits{MaxSequences: 8, MaxWaiting: 100, StepTokens: 64, ContextTokens: 1000}, 4000)
		h.flood(t, "b", 20, 4, 900, 1)
		h.step(t)
		h.flood(t, "a", 20, 4, 900, tc.weight)
		for range 20 {
			h.step(t)
		}
		if got := fmt.Sprint(h.runningByClient()); got != tc.want {
			t.Errorf("weight %g: %s run, want %s", tc.weight, got, tc.want)
		}
		for range 100 {
			h.planned = func(s Step) {
				if len(s.Preempted) > 0 {
					t.Fatalf("weight %g: preempted after convergence: %v", tc.weight, s.Preempted)
				}
			}
			h.step(t)
		}
	}
}

// TestClientsGetEqualTokens checks that of two clients with unlimited demand, one with short and
// one with long requests, both get the same number of tokens, however many requests they queue.
func TestClientsGetEqualTokens(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 2000, StepTokens: 64, ContextTokens: 1000}, 4000)
	h.flood(t, "many", 1000, 8, 8, 1)
	h.flood(t, "long", 30, 64, 32, 1)
	given := map[string]int{}
	h.planned = func(s Step) {
		for _, e := range s.Entries {
			given[e.sequence.Client] += len(e.Tokens)
			if e.Position >= len(e.sequence.Prompt) {
				given[e.sequence.Client] += len(e.Tokens)
			}
		}
	}
	for range 800 {
		h.step(t)
	}
	if d := given["many"] - given["long"]; d < -200 || d > 200 {
		t.Errorf("tokens %v differ by more than one request of each client", given)
	}
}

// TestUnusedShareDoesNotAccumulate checks that a client that was idle does not lock out others when
// it returns.
func TestUnusedShareDoesNotAccumulate(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 2000, StepTokens: 64, ContextTokens: 1000}, 4000)
	h.submit(clientRequest("back:early", Standard, 4, 1))
	h.step(t)
	h.flood(t, "busy", 500, 8, 8, 1)
	for range 1000 {
		h.step(t)
	}
	h.flood(t, "back", 100, 8, 8, 1)
	given := map[string]int{}
	h.planned = func(s Step) {
		for _, e := range s.Entries {
			given[e.sequence.Client]++
		}
	}
	for range 200 {
		h.step(t)
	}
	if d := given["back"] - given["busy"]; d < -20 || d > 20 {
		t.Errorf("steps by client %v", given)
	}
}

// TestLongPromptsDoNotBlockShortOne checks that a client with many long prompts does not keep
// another's short one out of the budget.
func TestLongPromptsDoNotBlockShortOne(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 8, MaxWaiting: 100, StepTokens: 16, ContextTokens: 1000}, 4000)
	h.flood(t, "greedy", 6, 500, 10, 1)
	for range 3 {
		h.step(t)
	}
	h.submit(clientRequest("other:0", Standard, 10, 5))
	for step := range 3 {
		plan, _ := h.Plan(now)
		if slices.ContainsFunc(plan.Entries, func(e Entry) bool { return e.sequence.Client == "other" }) {
			return
		}
		if step == 2 {
			t.Fatalf("after %d steps the other client's prompt has not started: %v", step+1, ids(plan))
		}
		h.Done(plan.Entries, make([]uint32, len(plan.Entries)))
	}
}

// TestClientWithMostBlocksIsPreempted checks that a client that fills the KV memory is preempted,
// and does not preempt a client with fewer blocks.
func TestClientWithMostBlocksIsPreempted(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 16, MaxWaiting: 100, StepTokens: 64, ContextTokens: 64}, 32)
	h.flood(t, "greedy", 16, 8, 50, 1)
	for range 20 {
		h.step(t)
	}
	h.submit(clientRequest("other:0", Standard, 16, 12))
	preempted := map[string]int{}
	h.planned = func(s Step) {
		for _, p := range s.Preempted {
			client, _, _ := strings.Cut(p.ID, ":")
			preempted[client]++
		}
	}
	for range 13 {
		h.step(t)
	}
	if h.finished["other:0"] == None || preempted["other"] > 0 || preempted["greedy"] == 0 {
		t.Errorf("finished %v, preempted %v, running %v", h.finished, preempted, h.runningByClient())
	}
}

// TestQueueVictimIsNewestOfLargestClient checks that a full queue drops the newest request of the
// largest client, but drops none for a client that has as many requests.
func TestQueueVictimIsNewestOfLargestClient(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 9, StepTokens: 16, ContextTokens: 64}, 16)
	h.flood(t, "greedy", 10, 4, 20, 1)
	h.step(t)
	for i := range 5 {
		r := clientRequest(fmt.Sprint("other:", i), Standard, 4, 4)
		if refusal := h.submit(r); refusal == nil || refusal.Reason != QueueFull {
			t.Fatalf("other:%d: %v", i, refusal)
		}
		if got, want := h.QueueVictim(r), fmt.Sprint("greedy:", 9-i); got != want {
			t.Fatalf("victim %s for other:%d, want %s", got, i, want)
		}
		h.Drop(h.QueueVictim(r))
		if refusal := h.submit(r); refusal != nil {
			t.Fatal(refusal)
		}
	}
	for _, id := range []string{"other:5", "greedy:10"} {
		if got := h.QueueVictim(clientRequest(id, Standard, 4, 4)); got != "" {
			t.Errorf("victim %s for %s, though both clients have five requests", got, id)
		}
	}
}

// TestClassPrecedesShare checks that a client that received less does not pass a higher class.
func TestClassPrecedesShare(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 2, MaxWaiting: 100, StepTokens: 64, ContextTokens: 1000}, 1000)
	for i := range 4 {
		h.submit(clientRequest(fmt.Sprint("greedy:", i), Interactive, 4, 100))
	}
	h.step(t)
	h.submit(clientRequest("other:0", Standard, 4, 4))
	if plan, _ := h.Plan(now); len(plan.Preempted) > 0 || slices.Contains(ids(plan), "other:0:4") {
		t.Errorf("step %v, preempted %v", ids(plan), plan.Preempted)
	}
}

// TestIdleAccountsAreBounded checks that the number of accounts without sequences is bounded.
func TestIdleAccountsAreBounded(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 64)
	h.submit(clientRequest("long:0", Standard, 4, 59))
	for i := range 3000 {
		h.submit(clientRequest(fmt.Sprintf("client%d:0", i), Standard, 4, 1))
		h.step(t)
		if i%50 == 0 {
			h.Drop("long:0")
			h.submit(clientRequest("long:0", Standard, 4, 59))
		}
	}
	if n := len(h.shares.accounts); n > maxIdle+16 {
		t.Errorf("%d accounts are kept", n)
	}
	for h.step(t) {
	}
	if n := len(h.shares.accounts); n != 0 {
		t.Errorf("an empty scheduler keeps %d accounts", n)
	}
}

// TestSharesAreFair submits random requests and checks that all finish. Among the clients that
// always have waiting requests, the one with the fewest tokens lags by at most one step and one
// request.
func TestSharesAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{
			MaxSequences: rapid.IntRange(1, 6).Draw(t, "sequences"), MaxWaiting: 1000,
			StepTokens: rapid.IntRange(8, 40).Draw(t, "tokens"), ContextTokens: 64,
		}
		h := newHarness(limits, 16*limits.MaxSequences)
		h.limits.StepTokens = max(limits.StepTokens, limits.MaxSequences)
		clients := rapid.IntRange(2, 4).Draw(t, "clients")
		requests := 0
		for c := range clients {
			weight := rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "weight")
			n := rapid.IntRange(20, 60).Draw(t, "requests")
			prompt, output := rapid.IntRange(1, 40).Draw(t, "prompt"), rapid.IntRange(1, 20).Draw(t, "output")
			for i := range n {
				r := clientRequest(fmt.Sprintf("c%d:%d", c, i), Standard, prompt, output)
				r.Root, r.Weight = kv.Root("m", r.ID, nil), weight
				if refusal := h.submit(r); refusal != nil {
					t.Fatalf("%v", refusal)
				}
				requests++
			}
		}
		bound := float64(outputCost * (h.limits.StepTokens + limits.MaxSequences*limits.ContextTokens))
		for range 100000 {
			waits := map[*account]bool{}
			for _, seq := range h.waiting {
				waits[seq.account] = true
			}
			var least, most float64
			for a := range waits {
				if least == 0 || a.served < least {
					least = a.served
				}
				most = max(most, a.served)
			}
			if len(waits) > 1 && least > 0 && most-least > bound {
				t.Fatalf("fair: two waiting clients have %.0f and %.0f virtual tokens", most, least)
			}
			if !h.step(t) {
				break
			}
		}
		if len(h.finished) != requests {
			t.Fatalf("progress: %d of %d finished", len(h.finished), requests)
		}
	})
}
