package lora

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/core/hbm"
)

// pageLayout returns a layout of n pages.
func pageLayout(n int) *Layout {
	l := &Layout{}
	l.Add(Matrix{}, int64(n)*hbm.PageBytes)
	return l
}

// newPool returns a pool of n pages with adapters of one page each.
func newPool(n int, adapters ...string) *Pool {
	p := NewPool(Config{Pages: make([]uint32, 0, n)})
	for i := range n {
		p.pages.Free([]uint32{uint32(i)})
		p.pages.total++
	}
	for _, id := range adapters {
		p.Register(id, pageLayout(1))
	}
	return p
}

// carryOut carries out all actions at once and returns them as short strings.
func carryOut(p *Pool) (done []string) {
	for actions := p.Actions(); len(actions) > 0; actions = p.Actions() {
		for _, action := range actions {
			switch a := action.(type) {
			case Load:
				done = append(done, "load "+a.Adapter)
				p.Loaded(a.Adapter, Disk, nil)
			case Evict:
				done = append(done, "evict "+a.Adapter)
				p.Evicted(a.Adapter)
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

// serveOne runs one request from arrival to end.
func serveOne(p *Pool, id string, at time.Time) []string {
	p.Requested(id, at)
	p.Pin("r", id)
	done := carryOut(p)
	p.Unpin("r")
	return append(done, carryOut(p)...)
}

func TestEvictsLeastRecentlyUsed(t *testing.T) {
	p, now := newPool(3, "a", "b", "c", "d"), time.Unix(1e9, 0)
	for i, id := range []string{"c", "a", "b", "c"} {
		serveOne(p, id, now.Add(time.Duration(i)*10*time.Minute)) // long after the half-life
	}
	expect(t, serveOne(p, "d", now.Add(time.Hour)), "evict a", "load d", "r ready")
}

func TestEvictsLessPopularFirst(t *testing.T) {
	p, now := newPool(2, "often", "once", "new"), time.Unix(1e9, 0)
	for i := range 3 {
		serveOne(p, "often", now.Add(time.Duration(i)*time.Second))
	}
	serveOne(p, "once", now.Add(10*time.Second))
	if got := serveOne(p, "new", now.Add(11*time.Second)); !slices.Contains(got, "evict once") {
		t.Errorf("%q: want the adapter with one recent request evicted, not the one with three", got)
	}
	serveOne(p, "new", now.Add(29*time.Minute))
	if got := serveOne(p, "once", now.Add(30*time.Minute)); !slices.Contains(got, "evict often") {
		t.Errorf("%q: want the adapter whose three requests are half an hour old evicted", got)
	}
}

func TestPinnedAdapterIsNotEvicted(t *testing.T) {
	p := newPool(2, "a", "b", "c")
	p.Pin("1", "a")
	p.Pin("2", "b")
	if state, _ := p.State("a"); state != Loading {
		t.Errorf("a is %s", state)
	}
	carryOut(p)
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
		t.Errorf("pin of b during its eviction: %v", refusal)
	}
	if _, there := p.Table("b"); there {
		t.Error("Table returns b during its eviction")
	}
}

func TestLoadsWaitForPagesInOrder(t *testing.T) {
	p := newPool(3, "a", "b", "c")
	p.Register("wide", pageLayout(2))
	for _, id := range []string{"a", "b", "c"} {
		serveOne(p, id, time.Unix(1, 0))
	}
	p.Pin("1", "wide")
	evictions := p.Actions()
	if len(evictions) != 2 {
		t.Fatalf("%v", evictions)
	}
	p.Evicted(evictions[0].(Evict).Adapter)
	if got := p.Actions(); len(got) != 0 {
		t.Errorf("actions %v with one page of two free", got)
	}
	p.Unpin("1") // the load is no longer wanted
	p.Evicted(evictions[1].(Evict).Adapter)
	if got := p.Actions(); len(got) != 0 {
		t.Errorf("actions %v for a cancelled load", got)
	}
	p.Pin("2", "wide")
	expect(t, carryOut(p), "load wide", "2 ready")
}

func TestDeleteLetsTheLastUserFinish(t *testing.T) {
	p := newPool(2, "a")
	p.Pin("1", "a")
	carryOut(p)
	if !p.Delete("a") || p.Delete("a") || p.Delete("none") {
		t.Error("Delete returned the wrong result")
	}
	if _, refusal := p.Pin("2", "a"); refusal == nil || refusal.Reason != Deleting {
		t.Errorf("pin while deleting: %v", refusal)
	}
	if refusal := p.Register("a", pageLayout(1)); refusal == nil || refusal.Reason != Deleting {
		t.Errorf("register while deleting: %v", refusal)
	}
	expect(t, carryOut(p))
	if _, there := p.Table("a"); !there {
		t.Error("deleted while a request holds it")
	}
	p.Unpin("1")
	expect(t, carryOut(p), "evict a")
	if _, refusal := p.Pin("3", "a"); refusal == nil || refusal.Reason != Unknown {
		t.Errorf("pin after the deletion: %v", refusal)
	}
	if refusal := p.Register("a", pageLayout(3)); refusal == nil || refusal.Reason != TooLarge {
		t.Errorf("register of an adapter larger than the pool: %v", refusal)
	}
	if p.Register("a", pageLayout(1)) != nil || p.Register("a", pageLayout(1)).Reason != Duplicate {
		t.Error("Register returned the wrong result")
	}
}

// TestLoadsAreCountedBySource checks that a load counts when it has ended, by where it came from.
func TestLoadsAreCountedBySource(t *testing.T) {
	p := newPool(4, "disk", "host", "there", "fails")
	for from, id := range map[Tier]string{Disk: "disk", DRAM: "host", GPU: "there"} {
		p.Pin(id, id)
		p.Loaded(id, from, nil)
	}
	p.Pin("fails", "fails")
	p.Loaded("fails", DRAM, errors.New("damaged"))
	if s := p.Stats(); s.Loads != 4 || s.Reads != 1 || s.HostLoads != 1 || s.Failures != 1 {
		t.Errorf("%+v", s)
	}
}

func TestFailedLoadReportsLost(t *testing.T) {
	p := newPool(1, "a")
	p.Pin("1", "a")
	p.Pin("2", "a")
	p.Actions()
	p.Loaded("a", Disk, errors.New("tensor x is damaged"))
	actions := p.Actions()
	if len(actions) != 2 { // two Lost
		t.Fatalf("%v", actions)
	}
	lost := actions[1].(Lost)
	if lost.Request != "2" || lost.Refusal.Reason != Failed ||
		lost.Refusal.Detail != "load adapter a: tensor x is damaged" {
		t.Errorf("%+v", lost)
	}
	if p.Users("a") != 0 || p.pages.Available() != 1 {
		t.Errorf("%d users, %d pages", p.Users("a"), p.pages.Available())
	}
	expect(t, serveOne(p, "a", time.Unix(1, 0)), "load a", "r ready")
}

func TestPrefetch(t *testing.T) {
	p, now := newPool(2, "hot", "warm", "old", "new", "never"), time.Unix(1e9, 0)
	serveOne(p, "old", now)
	now = now.Add(p.cfg.Window + time.Second)
	serveOne(p, "warm", now)
	for range 3 {
		p.Requested("hot", now)
	}
	p.Requested("new", now)
	p.Prefetch(10, now)
	// warm was requested within the window, so there is no room for new.
	expect(t, carryOut(p), "evict old", "load hot")
	if s := p.Stats(); s.Prefetches != 1 || s.Loads != 3 || s.Evictions != 1 {
		t.Errorf("%+v", s)
	}
	now = now.Add(p.cfg.Window + time.Second)
	p.Prefetch(10, now)
	expect(t, carryOut(p)) // nothing was requested within the window
}

// TestTickPrefetchesAfterRequests checks that a tick prefetches, but not again before another request.
func TestTickPrefetchesAfterRequests(t *testing.T) {
	p, now := newPool(1, "a", "b"), time.Unix(1e9, 0)
	if started := p.Tick(now); started != nil {
		t.Errorf("%v without a request", started)
	}
	p.Requested("a", now)
	if p.Tick(now); len(p.Actions()) != 1 {
		t.Error("a was not prefetched")
	}
	p.Loaded("a", Disk, nil)
	p.Requested("b", now)
	p.Tick(now) // a was requested within the window
	later := now.Add(p.cfg.Window)
	if p.Pin("r", "a"); p.Tick(later) != nil || len(p.Actions()) != 0 {
		t.Error("a tick without a request did something")
	}
}

// TestLocation checks that a copy in host memory counts unless the adapter is on the device or unknown.
func TestLocation(t *testing.T) {
	p := newPool(1, "a", "b")
	serveOne(p, "a", time.Unix(1, 0))
	for id, want := range map[string]Location{"a": {Idle, GPU}, "b": {Absent, DRAM}, "c": {Absent, Disk}} {
		if got := p.Location(id, true); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	if got := p.Location("b", false); got != (Location{Absent, Disk}) {
		t.Errorf("without a copy: %v", got)
	}
}

// TestPrefetchEvictsOnlyLessPopular checks that a prefetch evicts no adapter that is more popular.
func TestPrefetchEvictsOnlyLessPopular(t *testing.T) {
	p, now := newPool(1, "there", "new"), time.Unix(1e9, 0)
	p.Requested("there", now)
	p.Requested("there", now)
	serveOne(p, "there", now)
	now = now.Add(p.cfg.Window + time.Second)
	p.Requested("new", now)
	p.Prefetch(10, now)
	expect(t, carryOut(p))
	p.Requested("new", now)
	p.Requested("new", now)
	p.Prefetch(10, now)
	expect(t, carryOut(p), "evict there", "load new")
}

func TestConfiguredEvictionOrder(t *testing.T) {
	p, now := newPool(2, "a", "b", "c"), time.Unix(1e9, 0)
	p.cfg.Order = func(a, b string) int { return strings.Compare(b, a) }
	serveOne(p, "b", now)
	serveOne(p, "a", now.Add(-time.Hour))
	p.Pin("r", "c")
	if got := carryOut(p); len(got) == 0 || got[0] != "evict b" {
		t.Errorf("%v", got)
	}
}

func TestLayoutInPages(t *testing.T) {
	var l Layout
	qa, qb, down := Matrix{0, Q, A}, Matrix{0, Q, B}, Matrix{7, Down, A}
	l.Add(qa, 40)
	l.Add(qb, 2*hbm.PageBytes)
	l.Add(down, 8)
	if l.Pages() != 3 || l.Bytes() != 48+2*hbm.PageBytes+16 {
		t.Errorf("%d pages, %d bytes", l.Pages(), l.Bytes())
	}
	for m, want := range map[Matrix]Extent{
		qa:   {0, 40},
		qb:   {48, 2 * hbm.PageBytes},
		down: {48 + 2*hbm.PageBytes, 8},
	} {
		if got, ok := l.Find(m); !ok || got != want {
			t.Errorf("%v is at %v, want %v", m, got, want)
		}
	}
	if at, ok := l.Find(Matrix{1, Q, A}); ok {
		t.Errorf("a missing matrix is at %v", at)
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
		t.Error("allocated 30 bytes from two holes of 20")
	}
	if free, largest := f.Holes(); free != 40 || largest != 20 {
		t.Errorf("%d bytes free, largest hole %d", free, largest)
	}
	f.Free(80)
	if offset, ok := f.Allocate(30); !ok || offset != 60 {
		t.Errorf("offset %d, want 60", offset)
	}
	if offset, ok := f.Allocate(5); !ok || offset != 20 {
		t.Errorf("offset %d, want the first hole at 20", offset)
	}
}
