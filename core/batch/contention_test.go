package batch

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// defaultLimits are the limits of a deployment that sets none.
var defaultLimits = Limits{MaxSequences: 64, MaxWaiting: 1000, StepTokens: 512, ContextTokens: 1024}

// tokensOf counts a step's tokens by client.
func tokensOf(s Step) map[string]int {
	all := make(map[string]int)
	for _, e := range s.Entries {
		all[e.sequence.Client] += len(e.Tokens)
	}
	return all
}

// TestNewcomerWaitsAtMostOneShortStep measures the wait of another client's prompt during a flood
// of long prompts: one short step in flight, then its own step, which holds nothing else.
func TestNewcomerWaitsAtMostOneShortStep(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.flood(t, "greedy", 64, 900, 1, 0)
	var last map[string]int
	h.planned = func(s Step) { last = tokensOf(s) }
	for i := range 30 {
		for range 6 {
			h.step(t)
		}
		if i > 0 && last["greedy"] > 32 {
			t.Fatalf("request %d waits for a step of %v tokens", i, last)
		}
		h.submit(clientRequest(fmt.Sprint("other:", i), Standard, 65, 4))
		h.step(t)
		if last["other"] != 65 || last["greedy"] > 0 {
			t.Fatalf("request %d: the next step has %v tokens", i, last)
		}
		if h.step(t); last["greedy"] == 0 {
			t.Fatalf("request %d: the flood is missing from two steps", i)
		}
	}
}

// TestNewcomersOfOneClientPrecedeLongPrompts checks that requests that arrive together do not wait
// for chunks of another client's long prompts.
func TestNewcomersOfOneClientPrecedeLongPrompts(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.flood(t, "greedy", 64, 900, 1, 0)
	h.step(t)
	h.flood(t, "other", 4, 65, 4, 0)
	greedy := 0
	h.planned = func(s Step) { greedy += tokensOf(s)["greedy"] }
	steps := 0
	for ; len(h.outputs["other:3"]) == 0; steps++ {
		h.step(t)
	}
	if steps > 5 || greedy > 5*65 {
		t.Errorf("four prompts took %d steps with %d tokens of the flood", steps, greedy)
	}
}

// TestNewcomerPausesLargerClientOnce checks that the prompt of a new request pauses another client
// with many sequences for one step only, even if both clients were in the step before.
func TestNewcomerPausesLargerClientOnce(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.flood(t, "greedy", 300, 6, 900, 0)
	for range 5 {
		h.step(t)
	}
	var last map[string]int
	h.planned = func(s Step) { last = tokensOf(s) }
	for i := range 30 {
		h.submit(clientRequest(fmt.Sprint("other:", i), Standard, 65, 4))
		h.step(t)
		if last["other"] != 65 || last["greedy"] > 0 {
			t.Fatalf("request %d: the step of its prompt has tokens %v", i, last)
		}
		for range 3 { // the last one ends the request; the next request arrives while it is in flight
			if h.step(t); last["greedy"] < 60 {
				t.Fatalf("request %d: a later step has tokens %v", i, last)
			}
		}
	}
}

// TestNewClientsDoNotStarveOthers checks that new clients in every step leave every second step to
// the others.
func TestNewClientsDoNotStarveOthers(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.flood(t, "first", 4, 6, 900, 0)
	for range 5 {
		h.step(t)
	}
	steps := 0
	h.planned = func(s Step) {
		if tokensOf(s)["first"] > 0 {
			steps++
		}
	}
	for i := range 100 {
		h.submit(clientRequest(fmt.Sprintf("new%d:0", i), Standard, 100, 1))
		h.step(t)
	}
	if steps < 50 {
		t.Errorf("the first client is in only %d of 100 steps", steps)
	}
}

// TestContentionEnds checks that a client that is alone again gets whole steps after a while, and
// one that always was gets them at once.
func TestContentionEnds(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.now = time.Unix(1000, 0)
	var last Step
	h.planned = func(s Step) { last = s }
	tokens := func() int {
		h.step(t)
		return tokensOf(last)["long"]
	}
	h.flood(t, "long", 60, 900, 1, 0)
	if n := tokens(); n != 512 {
		t.Errorf("alone from the start: %d tokens", n)
	}
	h.submit(clientRequest("other:0", Standard, 10, 1))
	h.step(t)
	h.now = h.now.Add(contentionHold - 1)
	if n := tokens(); n != 32 {
		t.Errorf("shortly after another client: %d tokens", n)
	}
	h.now = h.now.Add(1)
	if n := tokens(); n != 512 {
		t.Errorf("long after another client: %d tokens", n)
	}
}

// TestAlternatingClientsStayContended checks that a client that arrives right after another has
// left does not get whole steps, since the other may return.
func TestAlternatingClientsStayContended(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.submit(clientRequest("other:0", Standard, 65, 1))
	h.step(t)
	h.flood(t, "greedy", 64, 900, 1, 0)
	if plan, _ := h.Plan(now); tokensOf(plan)["greedy"] != 32 {
		t.Errorf("%v tokens, want 32", tokensOf(plan))
	}
}

// TestPromptsAreSharedByWeight checks that the clients' shares of a step's prompts follow their
// weights.
func TestPromptsAreSharedByWeight(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.flood(t, "heavy", 60, 900, 1, 3)
	h.flood(t, "light", 60, 900, 1, 1)
	given := map[string]int{}
	h.planned = func(s Step) {
		for client, n := range tokensOf(s) {
			given[client] += n
		}
	}
	for range 200 {
		h.step(t)
	}
	if ratio := float64(given["heavy"]) / float64(given["light"]); ratio < 2.7 || ratio > 3.3 {
		t.Errorf("tokens %v at weights 3 and 1", given)
	}
}

// TestClientIsNotPausedWithoutRoom checks that no client is paused for a new one that finds no
// room.
func TestClientIsNotPausedWithoutRoom(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 8)
	h.submit(clientRequest("greedy:0", Standard, 12, 6))
	h.submit(clientRequest("greedy:1", Standard, 12, 6))
	h.step(t)
	h.submit(clientRequest("other:0", Standard, 26, 2))
	if plan, ok := h.Plan(now); !ok ||
		!slices.ContainsFunc(plan.Entries, func(e Entry) bool { return e.sequence.Client == "greedy" }) {
		t.Errorf("step %v", ids(plan))
	}
}

// TestWaitingPromptPrecedesNextChunk checks that a waiting prompt precedes the next chunk of a
// running one if its client received less, even if a third client comes first.
func TestWaitingPromptPrecedesNextChunk(t *testing.T) {
	h := newHarness(defaultLimits, 20000)
	h.submit(clientRequest("first:0", Standard, 900, 1))
	h.submit(clientRequest("last:0", Standard, 900, 1))
	h.step(t)
	h.submit(clientRequest("second:0", Standard, 65, 1))
	for client, served := range map[string]float64{"first": 1000, "second": 1010, "last": 1020} {
		h.shares.accounts[accountKey{Standard, client}].served = served
	}
	plan, _ := h.Plan(now)
	if got, want := fmt.Sprint(tokensOf(plan)), "map[first:32 last:31 second:65]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNewcomerLeavesTokensForDecodes checks that a new client's prompt takes no tokens from
// sequences that are not left out.
func TestNewcomerLeavesTokensForDecodes(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 64, MaxWaiting: 100, StepTokens: 64, ContextTokens: 1000}, 20000)
	h.flood(t, "light", 40, 1, 900, 100) // relative to its weight, it has fewer sequences than the new client
	h.flood(t, "greedy", 20, 1, 900, 1)
	for range 5 {
		h.step(t)
	}
	h.submit(clientRequest("other:0", Standard, 60, 4))
	plan, _ := h.Plan(now)
	if got, want := fmt.Sprint(tokensOf(plan)), "map[light:40 other:24]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
