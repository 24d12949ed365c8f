package lora

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/core/hbm"
)

// pages is a layout of n pages.
func pages(n int) *Layout {
	l := &Layout{}
	l.Add(Matrix{}, int64(n)*hbm.PageBytes)
	return l
}

// pool has n pages and adapters of one page each.
func newPool(n int, adapters ...string) *Pool {
	p := NewPool(Config{Pages: make([]uint32, 0, n), HostBytes: 2 * hbm.PageBytes})
	for i := range n {
		p.pages.Free([]uint32{uint32(i)})
		p.pages.total++
	}
	for _, id := range adapters {
		p.Register(id, pages(1))
	}
	return p
}

// carry carries everything out at once and returns what it was, a word each.
func carry(p *Pool) (done []string) {
	for actions := p.Actions(); len(actions) > 0; actions = p.Actions() {
		for _, action := range actions {
			switch a := action.(type) {
			case Load:
				done = append(done, fmt.Sprintf("load %s from %s", a.Adapter, a.From))
				p.Loaded(a.Adapter, nil)
			case Evict:
				done = append(done, "evict "+a.Adapter)
				p.Evicted(a.Adapter)
			case Drop:
				done = append(done, "drop "+a.Adapter)
			case Ready:
				done = append(done, a.Request+" ready")
			case Lost:
				done = append(done, a.Request+" lost")
			}
		}
	}
	return done
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// use lets a request come, be served and go.
func use(p *Pool, id string, at time.Time) []string {
	p.Requested(id, at)
	p.Pin("r", id)
	done := carry(p)
	p.Unpin("r")
	return append(done, carry(p)...)
}

func TestEvictsLeastRecentlyUsed(t *testing.T) {
	p, now := newPool(3, "a", "b", "c", "d"), time.Unix(1e9, 0)
	for i, id := range []string{"c", "a", "b", "c"} {
		use(p, id, now.Add(time.Duration(i)*10*time.Minute)) // long past its half-life
	}
	expect(t, use(p, "d", now.Add(time.Hour)), "evict a", "drop a", "load d from disk", "r ready")
}

func TestRecentRequestsProtect(t *testing.T) {
	p, now := newPool(2, "often", "once", "new"), time.Unix(1e9, 0)
	for i := range 3 {
		use(p, "often", now.Add(time.Duration(i)*time.Second))
	}
	use(p, "once", now.Add(10*time.Second))
	if got := use(p, "new", now.Add(11*time.Second)); !slices.Contains(got, "evict once") {
		t.Errorf("%q: of three requests a few seconds ago and one just now, the one went not", got)
	}
	use(p, "new", now.Add(29*time.Minute))
	if got := use(p, "once", now.Add(30*time.Minute)); !slices.Contains(got, "evict often") {
		t.Errorf("%q: three requests half an hour ago still weigh more than one a minute ago", got)
	}
}

func TestWhatIsInUseStays(t *testing.T) {
	p := newPool(2, "a", "b", "c")
	p.Pin("1", "a")
	p.Pin("2", "b")
	if state, _ := p.State("a"); state != Loading {
		t.Errorf("a is %s", state)
	}
	carry(p)
	if state, tier := p.State("a"); state != Active || tier != GPU {
		t.Errorf("a is %s on %s", state, tier)
	}
	if _, refusal := p.Pin("3", "c"); refusal == nil || refusal.Reason != NoRoom {
		t.Errorf("c: %v", refusal)
	}
	p.Unpin("2")
	if state, _ := p.State("b"); state != Idle {
		t.Errorf("b is %s", state)
	}
	if state, refusal := p.Pin("3", "c"); state != Loading || refusal != nil {
		t.Errorf("c: %s, %v", state, refusal)
	}
	if state, _ := p.State("b"); state != Evicting {
		t.Errorf("b is %s", state)
	}
	if _, refusal := p.Pin("4", "b"); refusal == nil || refusal.Reason != NoRoom {
		t.Errorf("b, while it leaves: %v", refusal)
	}
	if _, there := p.Table("b"); there {
		t.Error("b can be found while it leaves")
	}
}

func TestLoadsWaitForPagesInOrder(t *testing.T) {
	p := newPool(3, "a", "b", "c")
	p.Register("wide", pages(2))
	for _, id := range []string{"a", "b", "c"} {
		use(p, id, time.Unix(1, 0))
	}
	p.Pin("1", "wide")
	evictions := p.Actions()
	if len(evictions) != 2 {
		t.Fatalf("%v", evictions)
	}
	p.Evicted(evictions[0].(Evict).Adapter)
	if got := p.Actions(); len(got) != 0 {
		t.Errorf("%v: with one page of two", got)
	}
	p.Unpin("1") // nobody wants it any more
	p.Evicted(evictions[1].(Evict).Adapter)
	if got := p.Actions(); len(got) != 0 {
		t.Errorf("%v, which nobody waits for", got)
	}
	p.Pin("2", "wide")
	expect(t, carry(p), "drop b", "drop c", "load wide from disk", "2 ready")
}

func TestDeleteLetsTheLastUserFinish(t *testing.T) {
	p := newPool(2, "a")
	p.Pin("1", "a")
	carry(p)
	if !p.Delete("a") || p.Delete("a") || p.Delete("none") {
		t.Error("delete said otherwise")
	}
	if _, refusal := p.Pin("2", "a"); refusal == nil || refusal.Reason != Leaving {
		t.Errorf("a new request: %v", refusal)
	}
	if refusal := p.Register("a", pages(1)); refusal == nil || refusal.Reason != Leaving {
		t.Errorf("register while it leaves: %v", refusal)
	}
	expect(t, carry(p))
	if _, there := p.Table("a"); !there {
		t.Error("its last request lost it")
	}
	p.Unpin("1")
	expect(t, carry(p), "evict a", "drop a")
	if _, refusal := p.Pin("3", "a"); refusal == nil || refusal.Reason != Unknown {
		t.Errorf("afterwards: %v", refusal)
	}
	if refusal := p.Register("a", pages(3)); refusal == nil || refusal.Reason != TooLarge {
		t.Errorf("larger than the pool: %v", refusal)
	}
	if p.Register("a", pages(1)) != nil || p.Register("a", pages(1)).Reason != Duplicate {
		t.Error("register did otherwise")
	}
}

func TestHostMemoryKeepsWhatWasRead(t *testing.T) {
	p, now := newPool(1, "a", "b", "c"), time.Unix(1e9, 0)
	expect(t, use(p, "a", now), "load a from disk", "r ready")
	now = now.Add(time.Hour)
	expect(t, use(p, "b", now), "evict a", "load b from disk", "r ready")
	expect(t, use(p, "a", now.Add(time.Second)), "evict b", "load a from dram", "r ready")
	expect(t, use(p, "c", now.Add(time.Hour)), "evict a", "drop b", "load c from disk", "r ready")
	if _, tier := p.State("a"); tier != DRAM {
		t.Errorf("a is on %s", tier)
	}
}

func TestFailedLoadIsTold(t *testing.T) {
	p := newPool(1, "a")
	p.Pin("1", "a")
	p.Pin("2", "a")
	p.Actions()
	p.Loaded("a", errors.New("tensor x is damaged"))
	actions := p.Actions()
	if len(actions) != 3 { // host memory, two requests
		t.Fatalf("%v", actions)
	}
	lost := actions[2].(Lost)
	if lost.Request != "2" || lost.Refusal.Reason != Failed || lost.Refusal.Detail != "load adapter a: tensor x is damaged" {
		t.Errorf("%+v", lost)
	}
	if p.Users("a") != 0 || p.pages.Left() != 1 {
		t.Errorf("%d users, %d pages", p.Users("a"), p.pages.Left())
	}
	expect(t, use(p, "a", time.Unix(1, 0)), "load a from disk", "r ready")
}

func TestPrefetch(t *testing.T) {
	p, now := newPool(2, "hot", "warm", "old", "new", "never"), time.Unix(1e9, 0)
	use(p, "old", now)
	now = now.Add(p.cfg.Window + time.Second)
	use(p, "warm", now)
	for range 3 {
		p.Requested("hot", now)
	}
	p.Requested("new", now)
	p.Prefetch(10, now)
	expect(t, carry(p), "evict old", "drop old", "load hot from disk") // warm was requested in the window: new has no room
	if s := p.Stats(); s.Prefetches != 1 || s.Loads != 3 || s.Evictions != 1 {
		t.Errorf("%+v", s)
	}
	now = now.Add(p.cfg.Window + time.Second)
	p.Prefetch(10, now)
	expect(t, carry(p)) // nothing was requested in the window
}

// TestPrefetchTradesUp: nobody makes room for an adapter that is less popular than he is.
func TestPrefetchTradesUp(t *testing.T) {
	p, now := newPool(1, "there", "new"), time.Unix(1e9, 0)
	p.Requested("there", now)
	p.Requested("there", now)
	use(p, "there", now)
	now = now.Add(p.cfg.Window + time.Second)
	p.Requested("new", now)
	p.Prefetch(10, now)
	expect(t, carry(p))
	p.Requested("new", now)
	p.Requested("new", now)
	p.Prefetch(10, now)
	expect(t, carry(p), "evict there", "load new from disk")
}

func TestOrderOfEviction(t *testing.T) {
	p, now := newPool(2, "a", "b", "c"), time.Unix(1e9, 0)
	p.cfg.Order = func(a, b string) int { return strings.Compare(b, a) }
	use(p, "b", now)
	use(p, "a", now.Add(-time.Hour))
	p.Pin("r", "c")
	if got := carry(p); len(got) == 0 || got[0] != "evict b" {
		t.Errorf("%v", got)
	}
}

func TestLayoutInPages(t *testing.T) {
	var l Layout
	qa, qb, down := Matrix{0, Q, A}, Matrix{0, Q, B}, Matrix{7, Down, A}
	l.Add(qa, 40)
	l.Add(qb, 2*hbm.PageBytes)
	l.Add(down, 8)
	table := Table{&l, []uint32{9, 4, 7}}
	if l.Pages() != 3 || l.Bytes() != 48+2*hbm.PageBytes+16 {
		t.Errorf("%d pages, %d bytes", l.Pages(), l.Bytes())
	}
	for m, want := range map[Matrix][]Span{
		qa:        {{9, 0, 40}},
		qb:        {{9, 48, hbm.PageBytes - 48}, {4, 0, hbm.PageBytes}, {7, 0, 48}},
		down:      {{7, 48, 8}},
		{1, Q, A}: nil,
	} {
		if got := table.Spans(m); !slices.Equal(got, want) {
			t.Errorf("%v is at %v, not %v", m, got, want)
		}
	}
}

func TestFirstFit(t *testing.T) {
	f := NewFirstFit(100)
	var at []int64
	for range 5 {
		offset, _ := f.Allocate(20)
		at = append(at, offset)
	}
	if !slices.Equal(at, []int64{0, 20, 40, 60, 80}) {
		t.Fatal(at)
	}
	f.Free(20)
	f.Free(60)
	if _, ok := f.Allocate(30); ok {
		t.Error("30 bytes were found in two holes of 20")
	}
	if free, largest := f.Holes(); free != 40 || largest != 20 {
		t.Errorf("%d free, %d at once", free, largest)
	}
	f.Free(80)
	if offset, ok := f.Allocate(30); !ok || offset != 60 {
		t.Errorf("at %d", offset)
	}
	if offset, ok := f.Allocate(5); !ok || offset != 20 {
		t.Errorf("at %d, which is not the first hole", offset)
	}
}
