package turns

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config{MaxWait: 300 * time.Millisecond, Lead: 20 * time.Millisecond, Granted: 7})
		t.Repeat(map[string]func(*rapid.T){
			"join":  w.join,
			"found": w.expect,
			"ask":   w.ask,
			"ask 2": w.ask,
			"end":   w.end,
			"end 2": w.end,
			"stale": w.stale,
			"fire":  w.fire,
			"leave": w.leave,
			"time":  func(t *rapid.T) { w.pass(milliseconds(t, "pass", 0, 30)) },
		})
	})
}

func milliseconds(t *rapid.T, name string, least, most int) time.Duration {
	return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Millisecond
}

func (w *world) name(t *rapid.T, in ...State) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.replicas)) {
		if len(in) == 0 || slices.Contains(in, w.replicas[name].state) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Skip("no replica")
	}
	return rapid.SampledFrom(names).Draw(t, "replica")
}

func (w *world) join(t *rapid.T) {
	name := fmt.Sprintf("m-%d", rapid.IntRange(0, 4).Draw(t, "name"))
	w.note(w.replicas[name])
	w.replicas[name] = &peer{state: Idle}
	w.most = max(w.most, len(w.replicas))
	w.do(func(m *Machine) []Effect { return m.Join(name, w.now) })
}

// expect lets the machine find a replica of an earlier machine.
func (w *world) expect(t *rapid.T) {
	name := fmt.Sprintf("m-%d", rapid.IntRange(0, 4).Draw(t, "name"))
	if w.replicas[name] != nil {
		t.Skip("present")
	}
	w.replicas[name] = &peer{state: Expected, began: w.now}
	w.most = max(w.most, len(w.replicas))
	w.do(func(m *Machine) []Effect { return m.Expect(name, w.now) })
}

func (w *world) request(t *rapid.T) Request {
	r := Request{Class: Class(rapid.IntRange(1, 3).Draw(t, "class")), Estimate: milliseconds(t, "estimate", 1, 10),
		Prompt: rapid.Bool().Draw(t, "prompt"), Weight: float64(rapid.IntRange(0, 4).Draw(t, "weight"))}
	if rapid.Bool().Draw(t, "with a deadline") {
		r.Deadline = w.now.Add(milliseconds(t, "deadline", 0, 40))
	}
	return r
}

func (w *world) ask(t *rapid.T) {
	name := w.name(t, Idle)
	r := w.request(t)
	w.asked(name, r)
	w.do(func(m *Machine) []Effect { return m.Ask(name, r, w.now) })
}

func (w *world) asked(name string, r Request) {
	p := w.replicas[name]
	p.state, p.request, p.began, p.due = Waiting, r, w.now, time.Time{}
}

// note notes the duration of a turn that ends.
func (w *world) note(p *peer) {
	if p != nil && (p.state == Holding || p.state == Recalled || p.state == Expected) {
		w.longest = max(w.longest, w.now.Sub(p.began))
	}
}

func (w *world) end(t *rapid.T) {
	name := w.name(t, Holding, Open, Recalled, Overdue)
	p := w.replicas[name]
	w.note(p)
	turn, used := p.turn, milliseconds(t, "used", 0, 10)
	if rapid.Bool().Draw(t, "more") {
		r := w.request(t)
		w.asked(name, r)
		w.do(func(m *Machine) []Effect { return m.EndAndAsk(name, turn, used, r, w.now) })
		return
	}
	p.state, p.due = Idle, time.Time{}
	w.do(func(m *Machine) []Effect { return m.End(name, turn, used, w.now) })
}

// stale repeats what no longer applies: nothing changes.
func (w *world) stale(t *rapid.T) {
	name := w.name(t)
	turn := w.replicas[name].turn + uint64(rapid.IntRange(1, 3).Draw(t, "other"))
	for what, f := range map[string]func(*Machine) []Effect{
		"end":   func(m *Machine) []Effect { return m.End(name, turn, time.Second, w.now) },
		"timer": func(m *Machine) []Effect { return m.Timer(name, turn, w.now) },
		"guest": func(m *Machine) []Effect { return m.Ask("guest", Request{}, w.now) },
		"gone":  func(m *Machine) []Effect { return m.Leave("guest", w.now) },
	} {
		effects := w.do(f)
		if _, ok := effects[0].(Ignored); !ok || len(effects) != 1 {
			t.Fatalf("turns: a stale %s led to %v", what, effects)
		}
	}
}

func (w *world) leave(t *rapid.T) {
	name := w.name(t)
	w.note(w.replicas[name])
	delete(w.replicas, name)
	w.do(func(m *Machine) []Effect { return m.Leave(name, w.now) })
}

// pass lets time pass, but no timer that is due later than now.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, p := range w.replicas {
		if p.state == Holding || p.state == Recalled || p.state == Expected {
			w.longest = max(w.longest, w.now.Sub(p.began))
		}
	}
}

// fire lets the next timer fire.
func (w *world) fire(t *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(w.replicas)) {
		if p := w.replicas[name]; !p.due.IsZero() {
			w.pass(max(0, p.due.Sub(w.now)))
			turn := p.turn
			w.do(func(m *Machine) []Effect { return m.Timer(name, turn, w.now) })
			return
		}
	}
	t.Skip("no timer")
}

// TestSilent checks that a replica that no other one waits for needs one grant for all its steps.
func TestSilent(t *testing.T) {
	m := New(Config{})
	m.Join("a", epoch)
	m.Join("b", epoch)
	grant, ok := m.Ask("a", Request{Class: 2, Estimate: time.Millisecond}, epoch)[0].(Grant)
	if !ok || !grant.Open {
		t.Fatalf("%+v, want an open turn", grant)
	}
	later := epoch.Add(time.Hour)
	effects := m.Ask("b", Request{Class: 1}, later)
	if want := (Recall{"a", grant.Turn}); effects[0] != want {
		t.Errorf("%v, want %v", effects, want)
	}
	m.EndAndAsk("a", grant.Turn, time.Hour, Request{Class: 1}, later)
	if a, b := m.get("a").virtual(), m.get("b").virtual(); a != 0 || b != 0 {
		t.Errorf("virtual times %v and %v, want 0: no replica waited", a, b)
	}
}

// TestFair checks that replicas that always have work share the device by weight, whatever the
// lengths of their steps.
func TestFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lead = 50 * time.Millisecond
		m := New(Config{MaxWait: time.Hour, Lead: lead})
		count := rapid.IntRange(2, 5).Draw(t, "replicas")
		weights, used := make([]float64, count), make([]time.Duration, count)
		var longest time.Duration
		now, turn, holder := epoch, uint64(0), -1
		request := func(i int) Request {
			r := Request{Class: 2, Estimate: milliseconds(t, "estimate", 1, 30), Weight: weights[i],
				Prompt: i == 0 || rapid.Bool().Draw(t, "prompt")} // one has a prompt all the time
			if rapid.Bool().Draw(t, "pressed") {
				r.Deadline = now.Add(milliseconds(t, "deadline", 1, 60))
			}
			return r
		}
		take := func(effects []Effect) {
			for _, e := range effects {
				if g, ok := e.(Grant); ok {
					turn = g.Turn
					_, _ = fmt.Sscanf(g.Replica, "m-%d", &holder)
				}
			}
		}
		for i := range count {
			weights[i] = float64(rapid.IntRange(1, 4).Draw(t, "weight"))
			m.Join(fmt.Sprintf("m-%d", i), now)
		}
		for i := range count {
			take(m.Ask(fmt.Sprintf("m-%d", i), request(i), now))
		}
		for range 200 {
			i, step := holder, milliseconds(t, "step", 1, 30)
			now, longest = now.Add(step), max(longest, step)
			used[i] += step
			take(m.EndAndAsk(fmt.Sprintf("m-%d", i), turn, step, request(i), now))
		}
		for i := range count {
			for j := range i {
				got := max(used[i].Seconds()/weights[i]-used[j].Seconds()/weights[j],
					used[j].Seconds()/weights[j]-used[i].Seconds()/weights[i])
				if most := lead.Seconds() + 2*longest.Seconds()/min(weights[i], weights[j]); got > most {
					t.Fatalf("fair: m-%d and m-%d are %.3f s apart, more than %.3f s", i, j, got, most)
				}
			}
		}
	})
}
