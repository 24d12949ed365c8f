package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/schedule"
)

// TestConvergesFromAnyState checks that assignments stop changing within convergeCycles from any stored,
// running and remembered state: after changes by hand, the loss of nodes, an older bucket that was restored, a
// metrics outage, without requests, with two leaders for a moment, and when the clock jumps.
func TestConvergesFromAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, name := range names {
			w.deploy(name)
			w.scramble(w.stored[name])
		}
		if rapid.Bool().Draw(t, "a node is lost") {
			delete(w.nodes, "b")
		}
		w.lead()
		for range rapid.IntRange(0, 20).Draw(t, "seconds") {
			w.second()
		}
		if rapid.Bool().Draw(t, "two leaders") {
			w.rival()
		}
		jumps := rapid.SampledFrom([]time.Duration{-9 * time.Hour, -time.Minute, 0, time.Hour})
		w.now = w.now.Add(jumps.Draw(t, "jump"))
		for _, name := range names {
			d := w.stored[name]
			d.Leader, d.Model.Demand.Pending = "a", rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "requests")
		}
		w.follow(convergeCycles)
	})
}

// convergeCycles is K of doc.go.
const convergeCycles = 36

// scramble gives a deployment any assignments and replicas, with any times.
func (w *world) scramble(d *Deployment) {
	t := w.T
	d.Model.HeldBy, d.Model.WakeWait, d.Replicas = "", -1, min(max(d.Replicas, d.Model.Min), d.Model.Max)
	at := func() time.Time {
		ago := rapid.SampledFrom([]time.Duration{-9 * time.Hour, -time.Minute, 0, 9 * time.Hour})
		return w.now.Add(ago.Draw(t, "at"))
	}
	on := func() []string {
		return []string{rapid.SampledFrom([]string{"a/gpu-0", "b/gpu-0", "gone/gpu-0"}).Draw(t, "on")}
	}
	d.Planned = rapid.Bool().Draw(t, "planned")
	d.Leader = rapid.SampledFrom([]string{"", "a", "a"}).Draw(t, "leader")
	d.Intended = rapid.IntRange(0, 3).Draw(t, "intended")
	for i := range 3 {
		name := fmt.Sprintf("%s-%d", d.Model.Name, i)
		if d.Planned && rapid.Bool().Draw(t, "assigned") {
			a := Assignment{Replica: name, Devices: on(), Why: "it was drawn", At: at()}
			if rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
				a.After = []string{rapid.SampledFrom([]string{"m0-0", "m1-1", "m9-9"}).Draw(t, "for")}
			}
			d.Assigned = append(d.Assigned, a)
		}
		if rapid.Bool().Draw(t, "there") {
			r := Report{At: at(), Placed: schedule.Placed{Name: name, Model: d.Model.Name, Devices: on(), Since: at(),
				Progress: schedule.Progress(rapid.IntRange(1, 3).Draw(t, "progress"))}}
			if rapid.IntRange(0, 4).Draw(t, "failed") == 0 {
				r.Failure = "it ended"
			}
			d.Reports = append(d.Reports, r)
		}
	}
}

// second lets a second pass, with all answers.
func (w *world) second() {
	w.now = w.now.Add(time.Second)
	w.converge()
	w.do(func() []Effect { return w.m.Tick(w.at()) })
	for len(w.calls) > 0 {
		w.answer()
	}
}

// rival lets another leader plan and store, from an observation of before the last writes.
func (w *world) rival() {
	mine, seen, term := w.m, w.observed, w.term
	other := New(schedule.Options{})
	w.lead()
	w.m = other
	w.do(func() []Effect { return other.Tick(w.at()) })
	w.answer() // the observation
	stale, observed, newer := w.calls, w.observed, w.term
	w.m, w.calls, w.observed, w.term = mine, nil, seen, term
	for range 10 {
		w.second()
	}
	w.m, w.calls, w.observed, w.term = other, stale, observed, newer
	w.failed, w.times = false, make(map[string]int)
	for len(w.calls) > 0 {
		w.answer()
	}
}

// story returns the changes since a time.
func (w *world) story(since time.Time) (text string) {
	for _, r := range w.m.history {
		for _, write := range r.Writes {
			text += fmt.Sprintf("\n%s: %s %d to %d %s: %+v", r.At.Sub(since), write.Name, write.From, write.To,
				write.Outcome, write.Changes)
		}
	}
	return text
}

// follow checks that a number of cycles of 10 s are enough, and that the number of replicas of a deployment turns
// at most once.
func (w *world) follow(cycles int) {
	w.faultless, w.changed = true, w.now
	type course struct{ last, direction, turns int }
	courses := make(map[string]*course)
	start := w.now
	for name, d := range w.stored {
		courses[name] = &course{last: d.Replicas}
	}
	for range 2 * cycles * 10 {
		w.second()
		for _, name := range names {
			c, n := courses[name], w.stored[name].Replicas
			if n != c.last && c.direction != 0 && n > c.last != (c.direction > 0) {
				c.turns++
			}
			if n != c.last {
				c.direction, c.last = n-c.last, n
			}
			if c.turns > 1 {
				w.Fatalf("converges: the number of replicas of %s turns %d times:%s", name, c.turns, w.story(start))
			}
		}
	}
	if took := w.changed.Sub(start); took > time.Duration(cycles)*10*time.Second {
		w.Fatalf("converges: the last write came after %s:%s", took, w.story(start))
	}
	for _, name := range names {
		d := w.stored[name]
		missing := slices.ContainsFunc(w.m.last.Plan.Unmet, func(u schedule.Unmet) bool { return u.Model == name })
		if len(d.Assigned) < d.Model.Min && !missing {
			w.Fatalf("converges: %d replicas of %+v", len(d.Assigned), d.Model)
		}
	}
}
