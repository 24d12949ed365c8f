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

// shelf is a pool of adapters of one page each, whose loads the test carries out.
type shelf struct {
	*lora.Pool
	loading, leaving []string
}

func newShelf(pages int, adapters ...string) *shelf {
	numbers := make([]uint32, pages)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	s := &shelf{Pool: lora.NewPool(lora.Config{Pages: numbers})}
	for _, a := range adapters {
		l := &lora.Layout{}
		l.Add(lora.Matrix{}, hbm.PageBytes)
		s.Register(a, l)
	}
	return s
}

// carry notes what the pool wants done, and does all of it if told so.
func (s *shelf) carry(now bool) {
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
		s.end(nil)
	}
}

// end ends the oldest eviction or load.
func (s *shelf) end(err error) {
	switch {
	case len(s.leaving) > 0:
		s.Evicted(s.leaving[0])
		s.leaving = s.leaving[1:]
	case len(s.loading) > 0:
		s.Loaded(s.loading[0], err)
		s.loading = s.loading[1:]
	}
}

func adapted(id, adapter string, prompt int) Request {
	return Request{ID: id, Class: Standard, Adapter: adapter, Root: kv.Root("m", adapter, nil), Prompt: make([]uint32, prompt), MaxOutput: 3}
}

func withAdapters(limits Limits, blocks int, policy lora.Policy, s *shelf) *harness {
	h := newHarness(limits, blocks)
	h.UseAdapters(policy, s)
	return h
}

// TestAdaptersAgainstAlone: whatever is loaded, evicted, preempted or dropped, a sequence gets what it would have got alone; it runs only while its adapter is there;
// no more adapters run at once than may; those of one are side by side; and in the end none is held.
func TestAdaptersAgainstAlone(t *testing.T) {
	names := []string{"", "a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		blocks, most := rapid.IntRange(4, 14).Draw(t, "blocks"), rapid.IntRange(1, 3).Draw(t, "adapters")
		s := newShelf(rapid.IntRange(1, 3).Draw(t, "pages"), names[1:]...)
		limits := Limits{MaxSequences: rapid.IntRange(1, 5).Draw(t, "sequences"), MaxWaiting: 9, StepTokens: 9, ContextTokens: blocks * blockTokens}
		h := withAdapters(limits, blocks, lora.Policy{MaxAdapters: most, Lookahead: 3}, s)
		h.limits.StepTokens = max(limits.StepTokens, limits.MaxSequences)
		gone := map[string]bool{}
		h.planned = func(plan Step) {
			for _, r := range plan.Rejected {
				gone[r.ID] = true
			}
			var order []string
			for _, e := range plan.Entries {
				if state, _ := s.State(e.Adapter); e.Adapter != "" && (state != lora.Active || !s.holds(e.ID, e.Adapter)) {
					t.Fatalf("%s runs with %s, which is %s", e.ID, e.Adapter, state)
				}
				if n := len(order); n == 0 || order[n-1] != e.Adapter {
					if slices.Contains(order, e.Adapter) {
						t.Fatalf("not side by side: %v, then %s", order, e.Adapter)
					}
					order = append(order, e.Adapter)
				}
			}
			order = slices.DeleteFunc(order, func(a string) bool { return a == "" })
			if len(order) > most {
				t.Fatalf("%d adapters in a step: %v", len(order), order)
			}
			s.carry(false)
		}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				adapter := rapid.SampledFrom(names).Draw(t, "adapter")
				r := adapted(fmt.Sprint("r", next), adapter, rapid.IntRange(1, 2*blockTokens).Draw(t, "prompt"))
				r.Class, r.MaxOutput, r.Arrived = Class(rapid.IntRange(1, 3).Draw(t, "class")), rapid.IntRange(1, 9).Draw(t, "max"), h.now
				next++
				h.submit(r)
			},
			"step": func(t *rapid.T) { h.step(t); s.carry(false) },
			"load": func(t *rapid.T) { s.end(nil); s.carry(false) },
			"fail": func(t *rapid.T) {
				if len(s.leaving) == 0 {
					s.end(errors.New("damaged"))
					s.carry(false)
				}
			},
			"time": func(*rapid.T) { h.now = h.now.Add(200 * time.Millisecond) },
			"drop": func(t *rapid.T) {
				if id, ok := pick(t, h.byID); ok {
					h.Drop(id)
					gone[id] = true
					s.carry(false)
				}
			},
		})
		for range 10000 {
			s.carry(true)
			h.now = h.now.Add(10 * time.Millisecond)
			if h.step(t); len(h.byID) == 0 {
				break
			}
		}
		s.carry(true)
		for id, r := range h.requests {
			output, finish := want(r, limits.ContextTokens)
			if !gone[id] && (!slices.Equal(h.outputs[id], output) || h.finished[id] != finish) {
				t.Fatalf("%s with %q: %v %v, alone %v %v", id, r.Adapter, h.outputs[id], h.finished[id], output, finish)
			}
		}
		for _, a := range names[1:] {
			if n := s.Users(a); n != 0 {
				t.Fatalf("%d requests hold %s in the end", n, a)
			}
		}
		if h.pool.Free() != blocks {
			t.Fatalf("%d of %d blocks are free in the end", h.pool.Free(), blocks)
		}
	})
}

// holds reports whether a request holds an adapter: it does not change anything then.
func (s *shelf) holds(request, adapter string) bool {
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

// TestPassesWhoWaits: one whose adapter is not there is passed by those behind it, but for a while only.
func TestPassesWhoWaits(t *testing.T) {
	s := newShelf(1, "a", "b")
	h := withAdapters(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20, lora.Policy{}, s)
	h.now = time.Unix(1e9, 0)
	long := adapted("1", "a", 3)
	long.MaxOutput = 30
	h.submit(long)
	h.plan()
	s.carry(true)
	for id, adapter := range map[string]string{"2": "b", "3": "a", "4": ""} {
		r := adapted(id, adapter, 3)
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
	young := adapted("5", "a", 3)
	young.Arrived = h.now
	h.submit(young)
	h.plan()
	s.carry(true)
	if ids, _ := h.plan(); !slices.Contains(ids, "2") || slices.Contains(ids, "5") {
		t.Errorf("%v run, and the oldest is 2", ids)
	}
}

// TestWaitsForAnAdapterSoLong: one that has generated nothing is rejected at last; one that was preempted is not.
func TestWaitsForAnAdapterSoLong(t *testing.T) {
	s := newShelf(1, "a", "b")
	wait := func(class int) time.Duration { return time.Duration(class) * time.Second }
	h := withAdapters(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 64}, 20, lora.Policy{MaxWait: wait}, s)
	h.now = time.Unix(1e9, 0)
	user := adapted("1", "a", 3)
	user.MaxOutput = 40
	h.submit(user)
	h.plan()
	s.carry(true)
	h.plan()
	ran := adapted("2", "b", 3)
	ran.Output = []uint32{1}
	h.submit(ran)
	h.submit(adapted("3", "b", 3))
	for i := range 22 { // class 2
		_, rejected := h.plan()
		if h.now = h.now.Add(100 * time.Millisecond); len(rejected) > 0 {
			if len(rejected) != 1 || rejected[0].ID != "3" || rejected[0].Refusal.Reason != lora.NoRoom || i < 20 {
				t.Fatalf("after %d ms: %+v", i*100, rejected[0])
			}
			return
		}
	}
	t.Error("it waits for ever")
}

// TestRoomHoldsItsAdapter: a sequence that moves here has room only once its adapter is there; both are kept for it, or given back.
func TestRoomHoldsItsAdapter(t *testing.T) {
	s := newShelf(2, "a", "b", "c")
	h := withAdapters(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20, lora.Policy{MaxAdapters: 1}, s)
	r := adapted("1", "a", 6)
	r.MaxOutput = 9
	hashes := kv.Hashes(r.Root, r.Prompt[:5], blockTokens)
	if _, why := h.Reserve(r, hashes, 5); why == nil || why.Reason != AdapterLoading {
		t.Fatalf("before its adapter has come: %+v", why)
	}
	h.Unreserve(r)
	if s.Users("a") != 0 {
		t.Fatal("given up, it still holds its adapter")
	}
	h.Reserve(r, hashes, 5)
	s.carry(true)
	room, why := h.Reserve(r, hashes, 5)
	if h.Abandon(room); why != nil || s.Users("a") != 0 {
		t.Fatalf("%+v; given up, %d hold its adapter", why, s.Users("a"))
	}
	room, why = h.Reserve(r, hashes, 5)
	if why != nil {
		t.Fatalf("%+v", why)
	}
	if _, why := h.Reserve(adapted("2", "b", 6), kv.Hashes(kv.Root("m", "b", nil), r.Prompt[:5], blockTokens), 5); why == nil || why.Reason != NoRoom {
		t.Errorf("a second adapter, of one at most: %+v", why)
	}
	h.submit(adapted("3", "b", 3))
	if ids, _ := h.plan(); len(ids) != 0 {
		t.Errorf("%v runs beside it, with another adapter", ids)
	}
	h.Drop("3")
	if why := h.Adopt(room, r, 5); why != nil {
		t.Fatalf("%+v", why)
	}
	h.Abandon(room)
	if ids, _ := h.plan(); fmt.Sprint(ids) != "[1]" || s.Users("a") != 1 {
		t.Errorf("%v run, %d hold a", ids, s.Users("a"))
	}
	h.Drop("1")
	if s.Users("a") != 0 {
		t.Error("nobody is left, and it is held")
	}
}

// TestSideBySide: sequences of one adapter are together in a step.
func TestSideBySide(t *testing.T) {
	s := newShelf(2, "a", "b")
	h := withAdapters(Limits{MaxSequences: 6, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20, lora.Policy{}, s)
	for i, adapter := range []string{"a", "", "b", "a", "", "b"} {
		h.submit(adapted(fmt.Sprint(i), adapter, 3))
	}
	h.plan()
	s.carry(true)
	h.plan()
	if ids, _ := h.plan(); fmt.Sprint(ids) != "[1 4 0 3 2 5]" && fmt.Sprint(ids) != "[0 3 1 4 2 5]" {
		t.Errorf("%v", ids)
	}
}

func TestWithoutAdapters(t *testing.T) {
	h := newHarness(Limits{MaxSequences: 4, MaxWaiting: 4, StepTokens: 64, ContextTokens: 40}, 20)
	if why := h.submit(adapted("1", "a", 3)); why == nil || why.Reason != NoAdapter {
		t.Errorf("%+v", why)
	}
}

// TestPreemptedWaitsForItsAdapter: one that gave way in this very plan is not admitted again by it, though there is room: it holds no adapter.
func TestPreemptedWaitsForItsAdapter(t *testing.T) {
	s := newShelf(1, "a")
	h := withAdapters(Limits{MaxSequences: 2, MaxWaiting: 4, StepTokens: 9, ContextTokens: 16}, 4, lora.Policy{}, s)
	low := adapted("1", "a", 7)
	low.Class = Batch
	h.submit(low)
	h.plan()
	s.carry(true)
	h.plan()
	h.plan()
	h.submit(adapted("2", "", 4))
	if ids, _ := h.plan(); fmt.Sprint(ids) != "[2]" || s.Users("a") != 0 {
		t.Errorf("%v run; %d hold a", ids, s.Users("a"))
	}
	for range 6 {
		if ids, _ := h.plan(); slices.Contains(ids, "1") {
			return
		}
	}
	t.Error("it does not go on")
}
