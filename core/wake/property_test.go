package wake

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a router that asks a queue for random requests, and knows what must wait. It checks the
// invariants of doc.go by name.
type world struct {
	*rapid.T
	q        *Queue
	now      time.Time
	waiting  map[string]Request
	asked    map[string]time.Time
	reported map[string]int // the last number of each model; absent: 0
	at       map[string]time.Time
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			T: t, q: New(), now: time.Unix(1e9, 0), waiting: map[string]Request{}, asked: map[string]time.Time{},
			reported: map[string]int{}, at: map[string]time.Time{},
		}
		actions := map[string]func(*rapid.T){
			"ask": w.ask, "ask again": w.ask, "ask more": w.ask, "tick": w.tick,
			"repeat": func(*rapid.T) { // all sessions ask again
				for _, id := range w.ids() {
					w.do(w.q.Ask(w.waiting[id], w.now), id, nil)
				}
			},
			"answer": func(*rapid.T) {
				for _, model := range w.q.Models() {
					ids := w.q.Waiting(model)
					ids = ids[:rapid.IntRange(1, len(ids)).Draw(t, "answered")]
					w.leave(ids, func() []Effect { return w.q.Answered(w.now, ids...) })
				}
			},
			"withdraw": func(*rapid.T) {
				id := w.id()
				w.leave([]string{id}, func() []Effect { return w.q.Withdraw(id, w.now) })
			},
			"": func(*rapid.T) { w.check() },
		}
		for range 3 {
			t.Repeat(actions)
		}
	})
}

func (w *world) id() string { return fmt.Sprint("r", rapid.IntRange(0, 8).Draw(w.T, "request")) }

func (w *world) ids() (all []string) {
	for id := range w.waiting {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

const limit = 3

func (w *world) ask(*rapid.T) {
	r := Request{
		ID: w.id(), Model: rapid.SampledFrom([]string{"m", "n"}).Draw(w.T, "model"),
		Class: rapid.IntRange(1, 3).Draw(w.T, "class"), Limit: limit,
		Arrived:  w.now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(w.T, "age")) * time.Second),
		Deadline: w.now.Add(time.Duration(rapid.IntRange(0, 9).Draw(w.T, "left")) * time.Second),
		Bytes:    rapid.SampledFrom([]int{1, 100, maxBytes / 2, 2 * maxBytes}).Draw(w.T, "bytes"),
	}
	if had, ok := w.waiting[r.ID]; ok {
		r = had
	}
	w.do(w.q.Ask(r, w.now), r.ID, &r)
}

func (w *world) leave(ids []string, event func() []Effect) {
	for _, id := range ids {
		delete(w.waiting, id)
	}
	w.do(event(), "", nil)
}

func (w *world) tick(*rapid.T) {
	step := rapid.SampledFrom([]time.Duration{100, 100, 500, 1000, 2999, 3000}).Draw(w.T, "ms")
	w.now = w.now.Add(step * time.Millisecond)
	w.do(w.q.Tick(w.now), "", nil)
	for id, r := range w.waiting {
		if !w.now.Before(r.Deadline) {
			w.Fatalf("deadline: %s waits", id)
		}
		if w.now.Sub(w.asked[id]) >= 3*time.Second {
			w.Fatalf("alive: %s waits", id)
		}
	}
	for _, model := range []string{"m", "n"} {
		if n := w.count(model); n > 0 && w.now.Sub(w.at[model]) >= time.Second {
			w.Fatalf("woken: %d wait for %s, reported %s ago", n, model, w.now.Sub(w.at[model]))
		}
	}
}

func (w *world) count(model string) (n int) {
	for _, r := range w.waiting {
		if r.Model == model {
			n++
		}
	}
	return n
}

// do carries out the effects of an event: id was asked for, as a new request r unless r is nil.
func (w *world) do(effects []Effect, id string, r *Request) {
	confirmed, answered := false, false
	for _, e := range effects {
		switch e := e.(type) {
		case Confirm:
			if confirmed = true; e.ID != id {
				w.Fatalf("answered: %s is confirmed, %s was asked for", e.ID, id)
			}
			w.asked[id] = w.now
			if _, had := w.waiting[id]; !had {
				w.waiting[id] = *r
			}
		case Refuse:
			answered = answered || e.Request.ID == id
			w.refused(e)
		case Drop:
			if w.now.Sub(w.asked[e.ID]) < 3*time.Second {
				w.Fatalf("answered: %s is dropped after %s", e.ID, w.now.Sub(w.asked[e.ID]))
			}
			delete(w.waiting, e.ID)
		case Wake:
			last, ok := w.at[e.Model]
			if ok && e.Waiting > 0 && w.reported[e.Model] > 0 && w.now.Sub(last) < time.Second {
				w.Fatalf("deduplicated: %s reported again after %s", e.Model, w.now.Sub(last))
			}
			if e.Waiting != w.count(e.Model) {
				w.Fatalf("woken: %d reported for %s, %d wait", e.Waiting, e.Model, w.count(e.Model))
			}
			w.reported[e.Model], w.at[e.Model] = e.Waiting, w.now
		}
	}
	if id != "" && confirmed == answered {
		w.Fatalf("answered: %s is confirmed: %v, and refused: %v", id, confirmed, answered)
	}
	if _, waits := w.waiting[id]; id != "" && waits != confirmed {
		w.Fatalf("answered: %s waits: %v, confirmed: %v", id, waits, confirmed)
	}
}

func (w *world) refused(e Refuse) {
	if late := !w.now.Before(e.Request.Deadline); late != (e.Why == DeadlinePassed) {
		w.Fatalf("answered: %s refused with %s, %s before its deadline", e.Request.ID, e.Why,
			e.Request.Deadline.Sub(w.now))
	}
	bytes := 0
	for _, r := range w.waiting {
		bytes += r.Bytes
	}
	room := w.count(e.Request.Model) < limit && (bytes == 0 || bytes+e.Request.Bytes <= maxBytes)
	if e.Why == Full && room {
		w.Fatalf("bounded: %s refused though there is room", e.Request.ID)
	}
	delete(w.waiting, e.Request.ID)
}

// check checks the invariants that hold between events.
func (w *world) check() {
	total, bytes := 0, 0
	for _, model := range w.q.Models() {
		var want []Request
		for _, r := range w.waiting {
			if r.Model == model {
				want = append(want, r)
			}
		}
		slices.SortFunc(want, func(a, b Request) int {
			return cmp.Or(b.Class-a.Class, a.Arrived.Compare(b.Arrived), cmp.Compare(a.ID, b.ID))
		})
		ids := w.q.Waiting(model)
		if !slices.EqualFunc(ids, want, func(id string, r Request) bool { return id == r.ID }) {
			w.Fatalf("order: %v wait for %s, want %v", ids, model, want)
		}
		if len(ids) > limit {
			w.Fatalf("bounded: %d requests wait for %s", len(ids), model)
		}
		total += len(ids)
	}
	for _, r := range w.waiting {
		bytes += r.Bytes
	}
	if total != len(w.waiting) || w.q.bytes != bytes {
		w.Fatalf("once: %d wait with %d bytes, want %d with %d", total, w.q.bytes, len(w.waiting), bytes)
	}
	if bytes > maxBytes && total > 1 {
		w.Fatalf("bounded: %d requests with %d bytes wait", total, bytes)
	}
	for _, model := range []string{"m", "n"} {
		if w.count(model) == 0 && w.reported[model] > 0 {
			w.Fatalf("woken: no request waits for %s, which was reported last with %d", model, w.reported[model])
		}
	}
}
