package lora

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Unix(1e9, 0)

// line makes a line of requests "id:adapter", one a millisecond, the last of them now.
func line(requests ...string) (waiting []Waiting, now time.Time) {
	now = epoch.Add(time.Hour)
	for i, r := range requests {
		id, adapter, _ := strings.Cut(r, ":")
		waiting = append(waiting, Waiting{ID: id, Adapter: adapter, Arrived: now.Add(time.Duration(i-len(requests)) * time.Millisecond)})
	}
	return waiting, now
}

// admit admits up to room requests and returns their ids.
func admit(a *Admission, waiting []Waiting, now time.Time, room int, running ...string) (entered []string) {
	a.Admit(waiting, running, now, func(w Waiting) bool {
		if len(entered) == room {
			return false
		}
		entered = append(entered, w.ID)
		return true
	})
	return entered
}

func TestResidentFirst(t *testing.T) {
	p := newPool(4, "there", "coming", "disk", "also")
	p.Pin("x", "there")
	carry(p)
	p.Pin("y", "coming")
	p.Actions()
	waiting, now := line("1:disk", "2:coming", "3:there", "4:", "5:there")
	a := NewAdmission(Policy{}, p)
	var order []string
	for _, w := range a.order(waiting, now) {
		order = append(order, w.ID)
	}
	expect(t, order, "3", "4", "5", "2", "1")
	expect(t, admit(a, waiting, now, 9), "3", "4", "5")
	p.Loaded("coming", nil)
	carry(p)
	expect(t, admit(a, waiting, now, 9), "1", "2", "3", "4", "5") // all are there: by arrival
	if p.Users("disk") != 1 || p.Users("there") != 3 {
		t.Errorf("%d and %d users", p.Users("disk"), p.Users("there"))
	}
}

func TestFirstComeIsNotPassed(t *testing.T) {
	p := newPool(2, "there", "disk")
	p.Pin("x", "there")
	carry(p)
	waiting, now := line("1:there", "2:disk", "3:there")
	a := NewAdmission(Policy{FirstCome: true}, p)
	expect(t, admit(a, waiting, now, 9), "1")
	carry(p)
	expect(t, admit(a, waiting[1:], now, 9), "2", "3")
}

func TestClassComesFirst(t *testing.T) {
	p := newPool(2, "there", "disk")
	p.Pin("x", "there")
	carry(p)
	waiting, now := line("1:there", "2:there", "3:disk")
	waiting[1].Class, waiting[2].Class = 1, 2
	expect(t, admit(NewAdmission(Policy{}, p), waiting, now, 9), "2", "1")
	if state, _ := p.State("disk"); state != Loading {
		t.Errorf("disk is %s", state)
	}
}

func TestAtMostSoManyAdapters(t *testing.T) {
	p := newPool(4, "a", "b", "c")
	for i, id := range []string{"a", "b", "c"} {
		p.Pin(string(rune('x'+i)), id)
	}
	carry(p)
	waiting, now := line("1:b", "2:c", "3:a", "4:b", "5:")
	a := NewAdmission(Policy{MaxAdapters: 2}, p)
	expect(t, admit(a, waiting, now, 9, "a", "a", ""), "1", "3", "4", "5")
}

// TestNobodyStarves: requests of an adapter that is there keep coming, and still the one that waits for its pages is served.
func TestNobodyStarves(t *testing.T) {
	for name, policy := range map[string]Policy{"pages": {}, "places": {MaxAdapters: 1}, "first come": {FirstCome: true}} {
		p := newPool(1, "popular", "rare")
		if policy.MaxAdapters > 0 {
			p = newPool(2, "popular", "rare")
		}
		a := NewAdmission(policy, p)
		p.Pin("0", "popular")
		carry(p)
		now := epoch
		running := []string{"0"}
		waiting := []Waiting{{ID: "rare", Adapter: "rare", Arrived: now}}
		for i := 1; ; i++ { // each request stays for one step
			if now.Sub(epoch) > a.policy.MaxAge+50*time.Millisecond {
				t.Fatalf("%s: it still waits after %s", name, now.Sub(epoch))
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
			carry(p)
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

// TestOldTakesPagesOfThoseBehind: pages that were loaded ahead for others do not lock an older request out.
func TestOldTakesPagesOfThoseBehind(t *testing.T) {
	p := newPool(1, "first", "second")
	a := NewAdmission(Policy{Lookahead: 10}, p)
	waiting, now := line("1:first", "2:second")
	p.Pin("2", "second")
	carry(p)
	expect(t, admit(a, waiting, now, 0))
	if p.Users("second") != 1 {
		t.Fatal("a young request took another's pages")
	}
	expect(t, admit(a, waiting, now.Add(time.Second), 9))
	expect(t, carry(p), "evict second", "load first from disk", "1 ready")
	expect(t, admit(a, waiting, now.Add(time.Second), 9), "1")
}

func TestLookahead(t *testing.T) {
	p := newPool(4, "a", "b", "c", "d")
	a := NewAdmission(Policy{Lookahead: 2}, p)
	waiting, _ := line("1:", "2:a", "3:b", "4:c")
	waiting[3].Class = 1
	a.Ahead(waiting)
	expect(t, carry(p), "load c from disk", "4 ready")
	a.Ahead(waiting[:3])
	expect(t, carry(p), "load a from disk", "2 ready")
}

func TestWhatCanNotBeServedIsRejected(t *testing.T) {
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
	if len(rejected) != 2 || rejected[0].ID != "2" || rejected[0].Refusal.Reason != Leaving || rejected[1].Refusal.Reason != Unknown {
		t.Errorf("%+v", rejected)
	}
}

func TestSideBySide(t *testing.T) {
	batch := []string{"1:b", "2:a", "3:", "4:b", "5:a"}
	SideBySide(batch, func(s string) string { return s[2:] })
	expect(t, batch, "1:b", "4:b", "2:a", "5:a", "3:")
}
