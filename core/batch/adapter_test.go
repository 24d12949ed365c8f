package batch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
	"troupe/core/kv"
	"troupe/core/lora"
)

// testPool is a pool of adapters of one page each, whose loads the test carries out.
type testPool struct {
	*lora.Pool
	loading, leaving []string
}

func newTestPool(pages int, adapters ...string) *testPool {
	numbers := make([]uint32, pages)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	s := &testPool{Pool: lora.NewPool(lora.Config{Pages: numbers})}
	for _, a := range adapters {
		l := &lora.Layout{}
		l.Add(lora.Matrix{}, hbm.PageBytes)
		s.Register(a, l)
	}
	return s
}

// collect takes the pool's actions, and carries out all of them if now is set.
func (s *testPool) collect(now bool) {
	for {
		for _, action := range s.Actions() {
			switch a := action.(type) {
			case lora.Load:
				s.loading = append(s.loading, a.Adapter)
			case lora.Evict:
				s.leaving = append(s.leaving, a.Adapter)
			}
		}
		if !now || len(s.loading)+len(s.leaving) == 0 {
			return
		}
		s.finishOne(nil)
	}
}

// finishOne completes the oldest eviction, else the oldest load.
func (s *testPool) finishOne(err error) {
	switch {
	case len(s.leaving) > 0:
		s.Evicted(s.leaving[0])
		s.leaving = s.leaving[1:]
	case len(s.loading) > 0:
		s.Loaded(s.loading[0], lora.Disk, err)
		s.loading = s.loading[1:]
	}
}

func requestWithAdapter(id, adapter string, prompt int) Request {
	return Request{ID: id, Class: Standard, Adapter: adapter, Root: kv.Root("m", adapter, nil),
		Prompt: make([]uint32, prompt), MaxOutput: 3}
}

func withAdapters(limits Limits, blocks int, policy lora.Policy, s *testPool) *harness {
	h := newHarness(limits, blocks)
	h.UseAdapters(policy, s)
	return h
}

// TestSequencesWithAdaptersMatchIsolatedRuns loads, evicts, preempts and drops at random. Each
// sequence gets the output of an isolated run and runs only while its adapter is resident. The
// adapter limit holds, entries are grouped by adapter, and finally nothing is pinned.
func TestSequencesWithAdaptersMatchIsolatedRuns(t *testing.T) {
	names := []string{"", "a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		blocks, most := rapid.IntRange(4, 14).Draw(t, "blocks"), rapid.IntRange(1, 3).Draw(t, "adapters")
		s := newTestPool(rapid.IntRange(1, 3).Draw(t, "pages"), names[1:]...)
		limits := Limits{MaxSequences: rapid.IntRange(1, 5).Draw(t, "sequences"), MaxWaiting: 9, StepTokens: 9,
			ContextTokens: blocks * blockTokens}
		h := withAdapters(limits, blocks, lora.Policy{MaxAdapters: most, Lookahead: 3}, s)
		h.limits.StepTokens = max(limits.StepTokens, limits.MaxSequences)
		gone := map[string]bool{}
		h.planned = func(plan Step) {
			for _, r := range plan.Rejected {
				gone[r.ID] = true
			}
			var order []string
			for _, e := range plan.Entries {
				if state, _ := s.State(e.Adapter); e.Adapter != "" &&
					(state != lora.Active || !s.holds(e.ID, e.Adapter)) {
					t.Fatalf("%s runs with %s, which is %s", e.ID, e.Adapter, state)
				}
				if n := len(order); n == 0 || order[n-1] != e.Adapter {
					if slices.Contains(order, e.Adapter) {
						t.Fatalf("not grouped by adapter: %v, then %s", order, e.Adapter)
					}
					order = append(order, e.Adapter)
				}
			}
			order = slices.DeleteFunc(order, func(a string) bool { return a == "" })
			if len(order) > most {
				t.Fatalf("%d adapters in a step: %v", len(order), order)
			}
			s.collect(false)
		}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				adapter := rapid.SampledFrom(names).Draw(t, "adapter")
				r := requestWithAdapter(fmt.Sprint("r", next), adapter,
					rapid.IntRange(1, 2*blockTokens).Draw(t, "prompt"))
				r.Class, r.MaxOutput, r.Arrived = Class(rapid.IntRange(1, 3).Draw(t, "class")),
					rapid.IntRange(1, 9).Draw(t, "max"), h.now
				next++
				h.submit(r)
			},
			"step": func(t *rapid.T) { h.step(t); s.collect(false) },
			"load": func(t *rapid.T) { s.finishOne(nil); s.collect(false) },
			"fail": func(t *rapid.T) {
				if len(s.leaving) == 0 {
					s.finishOne(errors.New("damaged"))
					s.collect(false)
				}
			},
			"time": func(*rapid.T) { h.now = h.now.Add(200 * time.Millisecond) },
			"drop": func(t *rapid.T) {
				if id, ok := pick(t, h.byID); ok {
					h.Drop(id)
					gone[id] = true
					s.collect(false)
				}
			},
		})
		for range 10000 {
			s.collect(true)
			h.now = h.now.Add(10 * time.Millisecond)
			if h.step(t); len(h.byID) == 0 {
				break
			}
		}
		s.collect(true)
		for id, r := range h.requests {
			output, finish := isolatedRun(r, limits.ContextTokens)
			if !gone[id] && (!slices.Equal(h.outputs[id], output) || h.finished[id] != finish) {
				t.Fatalf("%s with %q: %v %v, isolated %v %v", id, r.Adapter, h.outputs[id], h.finished[id], output,
					finish)
			}
		}
		for _, a := range names[1:] {
			if n := s.Users(a); n != 0 {
				t.Fatalf("%d requests hold %s at the end", n, a)
			}
		}
		if h.pool.Free() != blocks {
			t.Fatalf("%d of %d blocks are free at the end", h.pool.Free(), blocks)
		}
	})
}

// holds reports whether a request holds an adapter. If it does, the call changes nothing.
func (s *testPool) holds(request, adapter string) bool {
	before := s.Users(adapter)
	_, why := s.Pin(request, adapter)
	return why == nil && s.Users(adapter) == before
}

func (h *harness) plan() (ids []string, rejected []lora.Rejected) {
	plan, _ := h.Plan(h.now)
	var sampled []uint32
	for _, e := range plan.Entries {
		ids = append(ids, e.ID)
		if e.Sample {
			sampled = append(sampled, 7)
		}
	}
	h.Done(plan.Entries, sampled)
	return ids, plan.Rejected
}

// TestOthersPassRequestWaitingForAdapter checks that a request whose adapter is not resident is
// passed only until MaxAge.
func TestOthersPassRequestWaitingForAdapter(t *testing.T) {
	s := newTestPool(1, "a", "b")
	h := withAdapters(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20, lora.Policy{}, s)
	h.now = time.Unix(1e9, 0)
	long := requestWithAdapter("1", "a", 3)
	long.MaxOutput = 30
	h.submit(long)
	h.plan()
	s.collect(true)
	for id, adapter := range map[string]string{"2": "b", "3": "a", "4": ""} {
		r := requestWithAdapter(id, adapter, 3)
		r.Arrived = h.now
		h.submit(r)
	}
	ids, _ := h.plan()
	if slices.Sort(ids); fmt.Sprint(ids) != "[1 3 4]" {
		t.Errorf("%v run while adapter b has no page", ids)
	}
	h.Drop("1")
	h.Drop("3")
	h.now = h.now.Add(time.Second)
	young := requestWithAdapter("5", "a", 3)
	young.Arrived = h.now
	h.submit(young)
	h.plan()
	s.collect(true)
	if ids, _ := h.plan(); !slices.Contains(ids, "2") || slices.Contains(ids, "5") {
		t.Errorf("%v run, but request 2 is the oldest", ids)
	}
}

// TestAdapterTimeoutRejects checks that a sequence without output is eventually rejected, and a
// preempted one never.
func TestAdapterTimeoutRejects(t *testing.T) {
	s := newTestPool(1, "a", "b")
	wait := func(class int) time.Duration { return time.Duration(class) * time.Second }
	h := withAdapters(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 64}, 20,
		lora.Policy{MaxWait: wait}, s)
	h.now = time.Unix(1e9, 0)
	user := requestWithAdapter("1", "a", 3)
	user.MaxOutput = 40
	h.submit(user)
	h.plan()
	s.collect(true)
	h.plan()
	ran := requestWithAdapter("2", "b", 3)
	ran.Output = []uint32{1}
	h.submit(ran)
	h.submit(requestWithAdapter("3", "b", 3))
	for i := range 22 { // class 2
		_, rejected := h.plan()
		if h.now = h.now.Add(100 * time.Millisecond); len(rejected) > 0 {
			if len(rejected) != 1 || rejected[0].ID != "3" || rejected[0].Refusal.Reason != lora.NoRoom || i < 20 {
				t.Fatalf("after %d ms: %+v", i*100, rejected[0])
			}
			return
		}
	}
	t.Error("not rejected within 2.2 s")
}

// TestReservationHoldsItsAdapter checks that a reservation needs a loaded adapter, and that both
// are held or both released.
func TestReservationHoldsItsAdapter(t *testing.T) {
	s := newTestPool(2, "a", "b", "c")
	h := withAdapters(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20,
		lora.Policy{MaxAdapters: 1}, s)
	r := requestWithAdapter("1", "a", 6)
	r.MaxOutput = 9
	hashes := kv.Hashes(r.Root, r.Prompt[:5], blockTokens)
	if _, why := h.Reserve(r, hashes, 5); why == nil || why.Reason != AdapterLoading {
		t.Fatalf("before the adapter is loaded: %+v", why)
	}
	h.ReleaseAdapter(r)
	if s.Users("a") != 0 {
		t.Fatal("ReleaseAdapter left the adapter pinned")
	}
	h.Reserve(r, hashes, 5)
	s.collect(true)
	room, why := h.Reserve(r, hashes, 5)
	if h.Abandon(room); why != nil || s.Users("a") != 0 {
		t.Fatalf("%+v; %d requests hold the adapter after Abandon", why, s.Users("a"))
	}
	room, why = h.Reserve(r, hashes, 5)
	if why != nil {
		t.Fatalf("%+v", why)
	}
	if _, why := h.Reserve(requestWithAdapter("2", "b", 6), kv.Hashes(kv.Root("m", "b", nil), r.Prompt[:5],
		blockTokens), 5); why == nil || why.Reason != NoRoom {
		t.Errorf("a second adapter despite a limit of one: %+v", why)
	}
	h.submit(requestWithAdapter("3", "b", 3))
	if ids, _ := h.plan(); len(ids) != 0 {
		t.Errorf("%v run with a second adapter", ids)
	}
	h.Drop("3")
	if why := h.Adopt(room, r, 5); why != nil {
		t.Fatalf("%+v", why)
	}
	h.Abandon(room)
	if ids, _ := h.plan(); fmt.Sprint(ids) != "[1]" || s.Users("a") != 1 {
		t.Errorf("%v run, %d requests hold a", ids, s.Users("a"))
	}
	h.Drop("1")
	if s.Users("a") != 0 {
		t.Error("the adapter is held without requests")
	}
}

// TestEntriesAreGroupedByAdapter checks that the sequences of one adapter are adjacent in a step.
func TestEntriesAreGroupedByAdapter(t *testing.T) {
	s := newTestPool(2, "a", "b")
	h := withAdapters(Limits{MaxSequences: 6, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20, lora.Policy{}, s)
	for i, adapter := range []string{"a", "", "b", "a", "", "b"} {
		h.submit(requestWithAdapter(fmt.Sprint(i), adapter, 3))
	}
	h.plan()
	s.collect(true)
	h.plan()
	if ids, _ := h.plan(); fmt.Sprint(ids) != "[1 4 0 3 2 5]" && fmt.Sprint(ids) != "[0 3 1 4 2 5]" {
		t.Errorf("%v", ids)
	}
}

func TestRefusesAdapterWithoutPool(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20)
	if why := h.submit(requestWithAdapter("1", "a", 3)); why == nil || why.Reason != NoAdapter {
		t.Errorf("%+v", why)
	}
}

// TestPreemptedSequenceWaitsForItsAdapter checks that a sequence preempted in a plan is not
// admitted again by that plan although there is room, since it has no pin.
func TestPreemptedSequenceWaitsForItsAdapter(t *testing.T) {
	s := newTestPool(1, "a")
	h := withAdapters(Limits{MaxSequences: 2, MaxWaiting: 4, StepTokens: 9, ContextTokens: 16}, 4, lora.Policy{}, s)
	low := requestWithAdapter("1", "a", 7)
	low.Class = Batch
	h.submit(low)
	h.plan()
	s.collect(true)
	h.plan()
	h.plan()
	h.submit(requestWithAdapter("2", "", 4))
	if ids, _ := h.plan(); fmt.Sprint(ids) != "[2]" || s.Users("a") != 0 {
		t.Errorf("%v run, %d requests hold a", ids, s.Users("a"))
	}
	for range 6 {
		if ids, _ := h.plan(); slices.Contains(ids, "1") {
			return
		}
	}
	t.Error("the preempted sequence does not continue")
}
