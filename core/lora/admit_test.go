package lora

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Unix(1e9, 0)

// line returns a queue of requests "id:adapter" that arrived 1 ms apart, the last of them now.
func line(requests ...string) (waiting []Waiting, now time.Time) {
	now = epoch.Add(time.Hour)
	for i, r := range requests {
		id, adapter, _ := strings.Cut(r, ":")
		waiting = append(waiting, Waiting{ID: id, Adapter: adapter,
			Arrived: now.Add(time.Duration(i-len(requests)) * time.Millisecond)})
	}
	return waiting, now
}

// admitIDs admits up to room requests and returns their IDs.
func admitIDs(a *Admission, waiting []Waiting, now time.Time, room int, running ...string) (entered []string) {
	a.Admit(waiting, running, now, func(w Waiting) bool {
		if len(entered) == room {
			return false
		}
		entered = append(entered, w.ID)
		return true
	})
	return entered
}

func TestAdmitsResidentAdaptersFirst(t *testing.T) {
	p := newPool(4, "there", "coming", "disk", "also")
	p.Pin("x", "there")
	carryOut(p)
	p.Pin("y", "coming")
	p.Actions()
	waiting, now := line("1:disk", "2:coming", "3:there", "4:", "5:there")
	a := NewAdmission(Policy{}, p)
	var order []string
	for _, w := range a.sorted(waiting, now) {
		order = append(order, w.ID)
	}
	expect(t, order, "3", "4", "5", "2", "1")
	expect(t, admitIDs(a, waiting, now, 9), "3", "4", "5")
	p.Loaded("coming", Disk, nil)
	carryOut(p)
	expect(t, admitIDs(a, waiting, now, 9), "1", "2", "3", "4", "5") // all adapters are resident: order of arrival
	if p.Users("disk") != 1 || p.Users("there") != 3 {
		t.Errorf("%d and %d users", p.Users("disk"), p.Users("there"))
	}
}

func TestFirstComeKeepsArrivalOrder(t *testing.T) {
	p := newPool(2, "there", "disk")
	p.Pin("x", "there")
	carryOut(p)
	waiting, now := line("1:there", "2:disk", "3:there")
	a := NewAdmission(Policy{FirstCome: true}, p)
	expect(t, admitIDs(a, waiting, now, 9), "1")
	carryOut(p)
	expect(t, admitIDs(a, waiting[1:], now, 9), "2", "3")
}

func TestAdmitsHigherClassFirst(t *testing.T) {
	p := newPool(2, "there", "disk")
	p.Pin("x", "there")
	carryOut(p)
	waiting, now := line("1:there", "2:there", "3:disk")
	waiting[1].Class, waiting[2].Class = 1, 2
	expect(t, admitIDs(NewAdmission(Policy{}, p), waiting, now, 9), "2", "1")
	if state, _ := p.State("disk"); state != Loading {
		t.Errorf("disk is %s", state)
	}
}

func TestMaxAdaptersPerBatch(t *testing.T) {
	p := newPool(4, "a", "b", "c")
	for i, id := range []string{"a", "b", "c"} {
		p.Pin(string(rune('x'+i)), id)
	}
	carryOut(p)
	waiting, now := line("1:b", "2:c", "3:a", "4:b", "5:")
	a := NewAdmission(Policy{MaxAdapters: 2}, p)
	expect(t, admitIDs(a, waiting, now, 9, "a", "a", ""), "1", "3", "4", "5")
}

// TestRequestWaitingForPagesDoesNotStarve checks that a request waiting for pages is served
// although requests for a resident adapter keep arriving.
func TestRequestWaitingForPagesDoesNotStarve(t *testing.T) {
	for name, policy := range map[string]Policy{"pages": {}, "places": {MaxAdapters: 1},
		"first come": {FirstCome: true}} {
		p := newPool(1, "popular", "rare")
		if policy.MaxAdapters > 0 {
			p = newPool(2, "popular", "rare")
		}
		a := NewAdmission(policy, p)
		p.Pin("0", "popular")
		carryOut(p)
		now := epoch
		running := []string{"0"}
		waiting := []Waiting{{ID: "rare", Adapter: "rare", Arrived: now}}
		for i := 1; ; i++ { // each request runs for one step
			if now.Sub(epoch) > a.policy.MaxAge+50*time.Millisecond {
				t.Fatalf("%s: still waiting after %s", name, now.Sub(epoch))
			}
			adapters := make([]string, len(running))
			for i := range adapters {
				adapters[i] = "popular"
			}
			waiting = append(waiting, Waiting{ID: string(rune(0x4e00 + i)), Adapter: "popular", Arrived: now})
			var entered []string
			a.Admit(waiting, adapters, now, func(w Waiting) bool {
				entered = append(entered, w.ID)
				return true
			})
			carryOut(p)
			if slices.Contains(entered, "rare") {
				break
			}
			for _, id := range running {
				p.Unpin(id)
			}
			running = entered
			waiting = slices.DeleteFunc(waiting, func(w Waiting) bool { return slices.Contains(entered, w.ID) })
			now = now.Add(10 * time.Millisecond)
		}
	}
}

// TestOldRequestTakesPrefetchedPages checks that pages prefetched for other requests do not lock
// out an older one.
func TestOldRequestTakesPrefetchedPages(t *testing.T) {
	p := newPool(1, "first", "second")
	a := NewAdmission(Policy{Lookahead: 10}, p)
	waiting, now := line("1:first", "2:second")
	p.Pin("2", "second")
	carryOut(p)
	expect(t, admitIDs(a, waiting, now, 0))
	if p.Users("second") != 1 {
		t.Fatal("a request younger than MaxAge took another's pages")
	}
	expect(t, admitIDs(a, waiting, now.Add(time.Second), 9))
	expect(t, carryOut(p), "evict second", "load first", "1 ready")
	expect(t, admitIDs(a, waiting, now.Add(time.Second), 9), "1")
}

func TestPrefetchesAdaptersOfFirstRequests(t *testing.T) {
	p := newPool(4, "a", "b", "c", "d")
	a := NewAdmission(Policy{Lookahead: 2}, p)
	waiting, _ := line("1:", "2:a", "3:b", "4:c")
	waiting[3].Class = 1
	a.PrefetchAdapters(waiting)
	expect(t, carryOut(p), "load c", "4 ready")
	a.PrefetchAdapters(waiting[:3])
	expect(t, carryOut(p), "load a", "2 ready")
}

func TestRejectsUnservableRequests(t *testing.T) {
	p := newPool(1, "a", "b")
	p.Pin("x", "b")
	p.Delete("b")
	waiting, now := line("1:none", "2:b", "3:")
	var entered []string
	rejected := NewAdmission(Policy{}, p).Admit(waiting, nil, now, func(w Waiting) bool {
		entered = append(entered, w.ID)
		return true
	})
	expect(t, entered, "3")
	if len(rejected) != 2 || rejected[0].ID != "2" || rejected[0].Refusal.Reason != Deleting ||
		rejected[1].Refusal.Reason != Unknown {
		t.Errorf("%+v", rejected)
	}
}

func TestGroupByAdapter(t *testing.T) {
	batch := []string{"1:b", "2:a", "3:", "4:b", "5:a"}
	GroupByAdapter(batch, func(s string) string { return s[2:] })
	expect(t, batch, "1:b", "4:b", "2:a", "5:a", "3:")
}

// TestAwaitsRoom checks that a request that is too old to be passed, and for which there is no room,
// is not pinned again and again: nothing is sent to the pool until something is released. A request
// behind it may find room, but does not get it either.
func TestAwaitsRoom(t *testing.T) {
	for _, pages := range []int{1, 2} { // of the older request
		pool := newPool(pages, "pinned", "young")
		pool.Register("old", pageLayout(pages))
		pool.Pin("operator", "pinned")
		carryOut(pool)
		client := NewPinClient("1")
		a := NewAdmission(Policy{Lookahead: 2, MaxAge: time.Second}, client)
		waiting, now := line("1:old", "2:young")
		if pages == 2 { // the younger one had the room first
			client.Pin("2", "young")
		}
		var entered []string
		plan := func() (sent []PinCommand) {
			a.Admit(waiting, nil, now, func(w Waiting) bool {
				entered = append(entered, w.ID)
				return true
			})
			a.PrefetchAdapters(waiting)
			sent = client.Drain(false)
			for _, c := range sent {
				if c.Unpin {
					pool.Unpin(c.Name)
					client.OnState(c.Adapter, Location{Idle, GPU})
					continue
				}
				_, refusal := pool.Pin(c.Name, c.Adapter)
				carryOut(pool)
				client.OnPinResult(c.Name, refusal)
			}
			return sent
		}
		plan()
		now = now.Add(time.Minute)
		for range 3 {
			entered = nil
			plan()
		}
		if sent := plan(); len(sent)+len(entered) > 0 {
			t.Errorf("sent although nothing was released: %v; admitted: %v", sent, entered)
		}
		pool.Unpin("operator")
		client.OnState("pinned", Location{Idle, GPU})
		plan()
		if plan(); !slices.Contains(entered, "1") {
			t.Errorf("admitted after the release: %v", entered)
		}
	}
}
