package planner

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/schedule"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, name := range names {
			w.deploy(name)
		}
		w.lead()
		w.run(3)
		for range 40 {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2, 3, 4, 5:
				w.disturb()
				w.run(rapid.IntRange(1, 40).Draw(t, "half seconds"))
			case 6, 7:
				w.disturb()
			default: // in the middle of a round
				w.tick()
				for range rapid.IntRange(0, 4).Draw(t, "answers") {
					w.answer()
				}
				w.disturb()
				for range rapid.IntRange(0, 3).Draw(t, "more") {
					w.answer()
				}
			}
		}
		w.settle()
	})
}

var names = []string{"m0", "m1", "m2", "m3"}

// disturb changes something, or loses or repeats an answer.
func (w *world) disturb() {
	t := w.T
	d := w.stored[rapid.SampledFrom(names).Draw(t, "deployment")]
	switch rapid.SampledFrom([]string{"lose", "lose", "stray", "stray", "lease", "pause", "deploy", "delete", "work",
		"work", "work", "work", "fail", "silent", "node", "ask"}).Draw(t, "event") {
	case "lose":
		if len(w.calls) > 0 {
			w.late = append(w.late, w.stray(w.calls[0]))
			w.calls = w.calls[1:]
		}
	case "stray":
		if len(w.late) > 0 {
			w.late[0]()
			w.late = w.late[1:]
		}
	case "lease":
		if w.term != 0 && rapid.Bool().Draw(t, "lost") {
			w.term = 0
			w.terms++ // another planner leads
		} else {
			w.lead()
		}
		w.refused = make(map[string]bool)
	case "pause":
		w.paused = !w.paused
	case "deploy":
		w.deploy(d.Model.Name)
	case "delete":
		d.Revision, d.Assigned, d.Withdrawn = 0, nil, nil
	case "work":
		d.Model.Demand.Pending = rapid.SampledFrom([]int{0, 3}).Draw(t, "work")
	case "fail":
		if len(d.Reports) > 0 {
			d.Reports[0].Failure = "it ended"
		}
	case "silent":
		d.Leader = rapid.SampledFrom([]string{"", "a"}).Draw(t, "leader")
	case "node":
		name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node")
		switch _, there := w.nodes[name]; {
		case !there:
			w.nodes[name] = false
		case rapid.Bool().Draw(t, "drains"):
			w.nodes[name] = !w.nodes[name]
		default:
			delete(w.nodes, name)
		}
	case "ask":
		w.asks++
		id := fmt.Sprint("q", w.asks)
		w.asked[id] = w.now
		a := Ask{id, rapid.SampledFrom([]string{"", "m0", "none"}).Draw(t, "of")}
		w.do(func() []Effect { return w.m.Asked(a, w.at()) })
	}
}

// tick lets some time pass.
func (w *world) tick() {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second}).Draw(w.T, "time"))
	w.converge()
	idle := w.m.State() == Idle
	effects := w.do(func() []Effect { return w.m.Tick(w.at()) })
	if now := fmt.Sprint(w.m.State(), w.m.rounds); now != w.state || w.m.State() == Idle {
		w.state, w.entered = now, w.now
	}
	if w.now.Sub(w.entered) > planTimeout+2*time.Second && len(w.calls) == 0 {
		w.Fatalf("alive: %s for %s", w.m.State(), w.now.Sub(w.entered))
	}
	if idle && !slices.ContainsFunc(effects, func(e Effect) bool {
		_, observes := e.(Observe)
		_, acquires := e.(Acquire)
		return observes || acquires
	}) {
		w.Fatalf("alive: idle, and %v after a tick", effects)
	}
}

// run ticks, with all answers.
func (w *world) run(ticks int) {
	for range ticks {
		w.tick()
		for len(w.calls) > 0 {
			w.answer()
		}
	}
}

// stray returns an answer that comes after its round.
func (w *world) stray(call Effect) func() {
	check := func(f func() []Effect) {
		before := w.picture()
		of := reflect.ValueOf(call).FieldByName("Round").Uint()
		if w.m.State() != Idle && of == w.m.round.number {
			return
		}
		for _, e := range f() {
			if _, ignored := e.(Ignored); !ignored {
				w.Fatalf("stale: %T%+v", e, e)
			}
		}
		if after := w.picture(); after != before {
			w.Fatalf("stale: %s\nbecame %s", before, after)
		}
	}
	o := w.observation()
	return func() {
		switch e := call.(type) {
		case Observe:
			check(func() []Effect { return w.m.Viewed(e.Round, o, w.at()) })
		case Survey:
			check(func() []Effect { return w.m.Surveyed(e.Round, nil, nil, w.at()) })
		case MakePlan:
			check(func() []Effect { return w.m.Planned(e.Round, &Result{}, w.at()) })
		case Store:
			outcome, revision := w.apply(e.Write)
			check(func() []Effect { return w.m.Stored(e.Round, outcome, revision, "", w.at()) })
		}
	}
}

func (w *world) picture() string {
	m := *w.m
	m.effects = nil
	return fmt.Sprintf("%s %d %+v %+v %v %v", m.state, m.round.number, m.counts, m.memory, m.written, m.asks)
}

// do carries out one event and checks its effects.
func (w *world) do(event func() []Effect) []Effect {
	effects := event()
	for _, e := range effects {
		switch e := e.(type) {
		case Acquire:
			if w.term != 0 {
				w.Fatal("leader: the leader acquires the lease")
			}
			w.calls = append(w.calls, e)
		case Observe:
			w.times, w.failed = make(map[string]int), false
			w.mustLead(e)
		case Survey, MakePlan:
			w.mustLead(e)
		case Store:
			w.mustLead(e)
			w.checkWrite(e)
		case Refuse:
			w.refused[e.Name] = e.Unmet.Missing > 0
		case Answer:
			for _, a := range e.Asks {
				if at, open := w.asked[a.ID]; !open || w.now.Sub(at) > askTimeout {
					w.Fatalf("answered: %s again, or after its time", a.ID)
				}
				delete(w.asked, a.ID)
				if e.Record != nil && a.Model != "" && w.stored[a.Model] != nil &&
					len(e.Record.Verdicts[a.Model]) == 0 && len(e.Record.Snapshot.Devices) > 0 &&
					e.Record.planned(a.Model) {
					w.Fatalf("answered: no verdicts for %s", a.Model)
				}
			}
		case Forget:
			for _, a := range e.Asks {
				if at, open := w.asked[a.ID]; !open || w.now.Sub(at) <= askTimeout && len(w.asked) <= maxAsks {
					w.Fatalf("answered: %s is forgotten again, or before its time", a.ID)
				}
				delete(w.asked, a.ID)
			}
		case Ended:
			w.checkRefusals(e.Record)
			w.checkOffers(e.Record)
			if last := e.Record.Writes; len(last) > 0 && last[len(last)-1].Outcome > Done {
				w.failed = true
			}
		}
	}
	if len(w.asked) != len(w.m.asks) {
		w.Fatalf("answered: %d questions are kept, and %d were neither answered nor forgotten", len(w.m.asks),
			len(w.asked))
	}
	return effects
}

func (r *Record) planned(model string) bool {
	return slices.ContainsFunc(r.Planned, func(d Deployment) bool { return d.Model.Name == model })
}

func (w *world) mustLead(e Effect) {
	if w.term == 0 {
		w.Fatalf("leader: another node leads, and this one does %T", e)
	}
	w.calls = append(w.calls, e)
}

// checkRefusals checks that deployments learned what the plan says.
func (w *world) checkRefusals(r *Record) {
	for _, d := range r.Planned {
		unmet := slices.ContainsFunc(r.Plan.Unmet, func(u schedule.Unmet) bool { return u.Model == d.Model.Name })
		told, any := w.refused[d.Model.Name]
		if d.Leader != "" && d.Revision != 0 && (told != unmet || !any) {
			w.Fatalf("refused: %s learned %v, and the plan says %+v", d.Model.Name, told, r.Plan.Unmet)
		}
	}
}

// checkOffers checks that a plan decides about replicas that came back.
func (w *world) checkOffers(r *Record) {
	if r.Outcome != "stored" && r.Outcome != "nothing to change" {
		return
	}
	for _, d := range r.Planned {
		for _, report := range d.Reports {
			away := !slices.ContainsFunc(r.Snapshot.Devices, func(o schedule.Device) bool {
				return o.Name == report.Devices[0]
			})
			_, assigned := d.assignment(report.Name)
			if d.offered(report, assigned) && !away && !slices.ContainsFunc(r.Writes, func(e Write) bool {
				return e.Name == d.Model.Name && (slices.Contains(e.Withdrawn, report.Name) || e.adds(report.Name))
			}) {
				w.Fatalf("offered: nothing is decided about %+v of %+v", report, d)
			}
		}
	}
}

func isStore(e Effect) bool {
	_, is := e.(Store)
	return is
}

func (w *world) checkWrite(e Store) {
	w.writes++
	w.times[e.Name]++
	d := w.stored[e.Name]
	switch {
	case w.paused:
		w.Fatalf("paused: %+v", e)
	case e.Term != w.term:
		w.Fatalf("leader: %+v in term %d", e, w.term)
	case w.failed:
		w.Fatalf("again: %+v after a write that failed", e)
	case w.times[e.Name] > 2:
		w.Fatalf("bounded: %+v, for the third time", e)
	case e.Revision != w.observed[e.Name]:
		w.Fatalf("observed: %+v, of revision %d", e, w.observed[e.Name])
	case d.Revision != e.Revision: // it will be a conflict
		return
	case slices.ContainsFunc(w.calls[:len(w.calls)-1], isStore):
		w.Fatal("one write: two are in flight")
	}
	names := make(map[string]bool)
	for other, o := range w.stored {
		for _, a := range o.Assigned {
			names[a.Replica] = names[a.Replica] || other != e.Name
		}
	}
	for _, a := range e.Replicas {
		if names[a.Replica] || a.Why == "" {
			w.Fatalf("unique, explained: %+v", e)
		}
		names[a.Replica] = true
		for _, before := range a.After {
			for other, o := range w.stored {
				if _, still := o.assignment(before); still && e.adds(a.Replica) && other != e.Name &&
					o.Revision == w.observed[other] {
					w.Fatalf("departures first: %s is stored, and %s has not been withdrawn", a.Replica, before)
				}
			}
		}
	}
	for _, c := range e.Changes {
		if c.Why == "" {
			w.Fatalf("explained: %+v", e)
		}
	}
	planned := w.m.round.seen.Find(e.Name)
	ended := planned.holdEnded(w.m.round.record.Snapshot.At)
	again := ended && d.Model.HeldBy == "" // the write before it in this round has ended the hold
	if ended != (e.Released != "") && !again {
		w.Fatalf("released: %+v, of %+v", e, d.Model)
	}
	held := d.Model.HeldBy != "" && !ended || d.Model.Max == 0
	if held && e.To != d.Replicas || !held && (e.To < d.Model.Min || e.To > d.Model.Max) {
		w.Fatalf("limits: %+v, of %+v", e, d.Model)
	}
}

// settle checks that the planner converges without faults.
func (w *world) settle() {
	w.paused = false
	for name := range w.nodes {
		w.nodes[name] = false
	}
	w.nodes["a"] = false
	for _, d := range w.stored {
		d.Leader, d.Model.Demand.Pending = "a", 0
		d.Reports = slices.DeleteFunc(d.Reports, func(r Report) bool { return r.Failure != "" })
	}
	w.calls, w.late = nil, nil
	for w.term == 0 {
		w.tick()
		w.lead()
	}
	w.run(1500)
	if quiet := w.now.Sub(w.changed); quiet < time.Minute && !w.changed.IsZero() {
		w.Fatalf("converges: the last write was %s ago", quiet)
	}
	for _, name := range slices.Sorted(maps.Keys(w.stored)) {
		d := w.stored[name]
		for _, r := range d.Reports {
			if _, assigned := d.assignment(r.Name); d.offered(r, assigned) {
				w.Fatalf("offered: %+v is there, and not assigned", r)
			}
		}
		missing := slices.ContainsFunc(w.m.last.Plan.Unmet, func(u schedule.Unmet) bool { return u.Model == name })
		if d.holdEnded(w.now.Add(-time.Minute)) {
			w.Fatalf("released: %+v is still held", d.Model)
		}
		if d.Revision != 0 && d.Model.HeldBy == "" && len(d.Assigned) < d.Model.Min && !missing {
			w.Fatalf("converges: %d replicas of %+v", len(d.Assigned), d.Model)
		}
	}
}
