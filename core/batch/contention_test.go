package batch

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// shipped are the limits of a deployment that sets none.
var shipped = Limits{MaxSequences: 64, MaxWaiting: 1000, StepTokens: 512, ContextTokens: 1024}

// tokensOf counts a step's tokens by client.
func tokensOf(s Step) map[string]int {
	all := make(map[string]int)
	for _, e := range s.Entries {
		all[e.sequence.Client] += len(e.Tokens)
	}
	return all
}

// TestNewcomerAmongLongPrompts counts what another client's prompt waits for while a flood of long
// prompts is computed: one short step that was in flight, and then its own step, which holds
// nothing else.
func TestNewcomerAmongLongPrompts(t *testing.T) {
	h := newHarness(shipped, 20000)
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
		h.submit(of(fmt.Sprint("other:", i), Standard, 65, 4))
		h.step(t)
		if last["other"] != 65 || last["greedy"] > 0 {
			t.Fatalf("request %d: the next step has %v tokens", i, last)
		}
		if h.step(t); last["greedy"] == 0 {
			t.Fatalf("request %d: the flood is left out of two steps", i)
		}
	}
}

// TestNewcomersOfOneClient: requests that arrive together do not wait for chunks of another
// client's long prompts.
func TestNewcomersOfOneClient(t *testing.T) {
	h := newHarness(shipped, 20000)
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
		t.Errorf("four prompts took %d steps, which had %d tokens of the flood", steps, greedy)
	}
}

// TestNewcomerAmongStreams: the sequences of a client with many are left out of the one step that
// has another's prompt, even where both were served in the step before.
func TestNewcomerAmongStreams(t *testing.T) {
	h := newHarness(shipped, 20000)
	h.flood(t, "greedy", 300, 6, 900, 0)
	for range 5 {
		h.step(t)
	}
	var last map[string]int
	h.planned = func(s Step) { last = tokensOf(s) }
	for i := range 30 {
		h.submit(of(fmt.Sprint("other:", i), Standard, 65, 4))
		h.step(t)
		if last["other"] != 65 || last["greedy"] > 0 {
			t.Fatalf("request %d: its step has %v tokens", i, last)
		}
		for range 3 { // the last of them ends the request; the next one arrives while it is in flight
			if h.step(t); last["greedy"] < 60 {
				t.Fatalf("request %d: a step after it has %v tokens", i, last)
			}
		}
	}
}

// TestNewClientsDoNotPauseForever: clients that are new in each step leave every second one to
// those that were there.
func TestNewClientsDoNotPauseForever(t *testing.T) {
	h := newHarness(shipped, 20000)
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
		h.submit(of(fmt.Sprintf("new%d:0", i), Standard, 100, 1))
		h.step(t)
	}
	if steps < 50 {
		t.Errorf("the first client is in %d of 100 steps", steps)
	}
}

// TestContentionEnds: a client that is alone again gets whole steps after a while, and one that
// always was gets them at once.
func TestContentionEnds(t *testing.T) {
	h := newHarness(shipped, 20000)
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
	h.submit(of("other:0", Standard, 10, 1))
	h.step(t)
	h.now = h.now.Add(contention - 1)
	if n := tokens(); n != 32 {
		t.Errorf("shortly after another client: %d tokens", n)
	}
	h.now = h.now.Add(1)
	if n := tokens(); n != 512 {
		t.Errorf("long after another client: %d tokens", n)
	}
}

// TestClientsInTurn: a client that comes when another has just left does not get whole steps, as
// that one may be back.
func TestClientsInTurn(t *testing.T) {
	h := newHarness(shipped, 20000)
	h.submit(of("other:0", Standard, 65, 1))
	h.step(t)
	h.flood(t, "greedy", 64, 900, 1, 0)
	if plan, _ := h.Plan(now); tokensOf(plan)["greedy"] != 32 {
		t.Errorf("%v tokens, want 32", tokensOf(plan))
	}
}

// TestPromptsAreSharedByWeight: the parts of a step that clients get for prompts follow their
// weights.
func TestPromptsAreSharedByWeight(t *testing.T) {
	h := newHarness(shipped, 20000)
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

// TestPausedClientComesBack checks that no client is paused for a newcomer that finds no room.
func TestPausedClientComesBack(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 10, StepTokens: 64, ContextTokens: 64}, 8)
	h.submit(of("greedy:0", Standard, 12, 6))
	h.submit(of("greedy:1", Standard, 12, 6))
	h.step(t)
	h.submit(of("other:0", Standard, 26, 2))
	if plan, ok := h.Plan(now); !ok || !slices.ContainsFunc(plan.Entries, func(e Entry) bool { return e.sequence.Client == "greedy" }) {
		t.Errorf("step %v", ids(plan))
	}
}

// TestPromptsAreServedInOrder: a prompt that waits is computed before the next chunk of one that
// runs, where its client was given less, even if a third client comes first.
func TestPromptsAreServedInOrder(t *testing.T) {
	h := newHarness(shipped, 20000)
	h.submit(of("first:0", Standard, 900, 1))
	h.submit(of("last:0", Standard, 900, 1))
	h.step(t)
	h.submit(of("second:0", Standard, 65, 1))
	for client, served := range map[string]float64{"first": 1000, "second": 1010, "last": 1020} {
		h.shares.accounts[accountKey{Standard, client}].served = served
	}
	plan, _ := h.Plan(now)
	if got, want := fmt.Sprint(tokensOf(plan)), "map[first:32 last:31 second:65]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNewcomerLeavesRoomToDecode: a newcomer's prompt takes no tokens from sequences that are not
// left out.
func TestNewcomerLeavesRoomToDecode(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 64, MaxWaiting: 100, StepTokens: 64, ContextTokens: 1000}, 20000)
	h.flood(t, "light", 40, 1, 900, 100) // by weight it has fewer sequences than a newcomer
	h.flood(t, "greedy", 20, 1, 900, 1)
	for range 5 {
		h.step(t)
	}
	h.submit(of("other:0", Standard, 60, 4))
	plan, _ := h.Plan(now)
	if got, want := fmt.Sprint(tokensOf(plan)), "map[light:40 other:24]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
