package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// of makes a request of a client: "client:number".
func of(id string, class Class, prompt, output int) Request {
	r := request(id, class, prompt, output)
	r.Client, _, _ = strings.Cut(id, ":")
	return r
}

// flood submits n requests of a client.
func (h *harness) flood(t *testing.T, client string, n, prompt, output int, weight float64) {
	t.Helper()
	for i := range n {
		r := of(fmt.Sprintf("%s:%d", client, i), Standard, prompt, output)
		r.Weight = weight
		if refusal := h.submit(r); refusal != nil {
			t.Fatal(refusal)
		}
	}
}

// runs counts the running sequences by client.
func (h *harness) runs() map[string]int {
	all := make(map[string]int)
	for _, seq := range h.running {
		all[seq.Client]++
	}
	return all
}

func TestGreedyClientGivesPlacesUp(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 100, StepTokens: 64, ContextTokens: 1000}, 1000)
	h.flood(t, "greedy", 20, 4, 900, 0)
	for range 50 {
		h.step(t)
	}
	h.submit(of("other:0", Standard, 30, 5))
	plan, _ := h.Plan(now)
	if !slices.Contains(ids(plan), "other:0:30") || len(plan.Preempted) != 1 || plan.Preempted[0].ID != "greedy:3" {
		t.Fatalf("step %v, preempted %v: the other client has to wait until a sequence of 900 tokens ends", ids(plan), plan.Preempted)
	}
}

// TestPlacesSettleAtShares: clients that all want more get places by weight, and do not take them from each other in turn.
func TestPlacesSettleAtShares(t *testing.T) {
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
		if got := fmt.Sprint(h.runs()); got != tc.want {
			t.Errorf("weight %g: %s run, want %s", tc.weight, got, tc.want)
		}
		for range 100 {
			h.planned = func(s Step) {
				if len(s.Preempted) > 0 {
					t.Fatalf("weight %g: preempted at rest: %v", tc.weight, s.Preempted)
				}
			}
			h.step(t)
		}
	}
}

// TestTokensAreShared: of two clients that always wait, the one with short requests and the one with long ones are given
// the same number of tokens, however many requests they have in the queue.
func TestTokensAreShared(t *testing.T) {
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
		t.Errorf("given %v: they differ by more than one request of each", given)
	}
}

// TestUnusedShareIsNotSaved: a client that was idle does not lock out the others when it is back.
func TestUnusedShareIsNotSaved(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 2000, StepTokens: 64, ContextTokens: 1000}, 4000)
	h.submit(of("back:early", Standard, 4, 1))
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
		t.Errorf("steps given %v", given)
	}
}

// TestPrefillsAreShared: a client with many long prompts does not keep another's short one out of the step's budget.
func TestPrefillsAreShared(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 8, MaxWaiting: 100, StepTokens: 16, ContextTokens: 1000}, 4000)
	h.flood(t, "greedy", 6, 500, 10, 1)
	for range 3 {
		h.step(t)
	}
	h.submit(of("other:0", Standard, 10, 5))
	for step := range 3 {
		plan, _ := h.Plan(now)
		if slices.ContainsFunc(plan.Entries, func(e Entry) bool { return e.sequence.Client == "other" }) {
			return
		}
		if step == 2 {
			t.Fatalf("after %d steps the other's prompt is not begun: %v", step+1, ids(plan))
		}
		h.Done(plan.Entries, make([]uint32, len(plan.Entries)))
	}
}

// TestBlocksAreShared: a client that fills the KV memory gives blocks up, and does not take them from one with fewer.
func TestBlocksAreShared(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 16, MaxWaiting: 100, StepTokens: 64, ContextTokens: 64}, 32)
	h.flood(t, "greedy", 16, 8, 50, 1)
	for range 20 {
		h.step(t)
	}
	h.submit(of("other:0", Standard, 16, 12))
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
		t.Errorf("finished %v, preempted %v, %v run", h.finished, preempted, h.runs())
	}
}

// TestFullQueueMakesRoom: where the queue is full, the client with the most gives up its newest; one with as many does not.
func TestFullQueueMakesRoom(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 1, MaxWaiting: 9, StepTokens: 16, ContextTokens: 64}, 16)
	h.flood(t, "greedy", 10, 4, 20, 1)
	h.step(t)
	for i := range 5 {
		r := of(fmt.Sprint("other:", i), Standard, 4, 4)
		if refusal := h.submit(r); refusal == nil || refusal.Reason != QueueFull {
			t.Fatalf("other:%d: %v", i, refusal)
		}
		if got, want := h.Surplus(r), fmt.Sprint("greedy:", 9-i); got != want {
			t.Fatalf("%s gives way to other:%d, want %s", got, i, want)
		}
		h.Drop(h.Surplus(r))
		if refusal := h.submit(r); refusal != nil {
			t.Fatal(refusal)
		}
	}
	for _, id := range []string{"other:5", "greedy:10"} {
		if got := h.Surplus(of(id, Standard, 4, 4)); got != "" {
			t.Errorf("%s gives way to %s, though both clients have five", got, id)
		}
	}
}

// TestClassesComeBeforeShares: a client that has had less does not pass a higher class.
func TestClassesComeBeforeShares(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 2, MaxWaiting: 100, StepTokens: 64, ContextTokens: 1000}, 1000)
	for i := range 4 {
		h.submit(of(fmt.Sprint("greedy:", i), Interactive, 4, 100))
	}
	h.step(t)
	h.submit(of("other:0", Standard, 4, 4))
	if plan, _ := h.Plan(now); len(plan.Preempted) > 0 || slices.Contains(ids(plan), "other:0:4") {
		t.Errorf("step %v, preempted %v", ids(plan), plan.Preempted)
	}
}

// TestCountersAreForgotten: what is remembered of clients that left is bounded.
func TestCountersAreForgotten(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 64)
	h.submit(of("long:0", Standard, 4, 59))
	for i := range 3000 {
		h.submit(of(fmt.Sprintf("client%d:0", i), Standard, 4, 1))
		h.step(t)
		if i%50 == 0 {
			h.Drop("long:0")
			h.submit(of("long:0", Standard, 4, 59))
		}
	}
	if n := len(h.shares.accounts); n > maxIdle+16 {
		t.Errorf("%d counters are kept", n)
	}
	for h.step(t) {
	}
	if n := len(h.shares.accounts); n != 0 {
		t.Errorf("%d counters are kept of an empty scheduler", n)
	}
}

// TestSharesProperty: whatever clients submit, of those that always wait the one that was given the least is never more
// than a step and a request behind, and all finish.
func TestSharesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{
			MaxSequences: rapid.IntRange(1, 6).Draw(t, "sequences"), MaxWaiting: 1000, StepTokens: rapid.IntRange(8, 40).Draw(t, "tokens"), ContextTokens: 64,
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
				r := of(fmt.Sprintf("c%d:%d", c, i), Standard, prompt, output)
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
				t.Fatalf("fair: a client had %.0f virtual tokens, another %.0f; both wait", most, least)
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
