package planner

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/schedule"
)

// world is a store, a router and other planners. It checks the invariants of doc.go by name.
type world struct {
	*rapid.T
	m       *Machine
	now     time.Time
	leads   bool
	writes  int // in flight
	since   time.Time
	by      map[string]*Deployment
	started bool // the loads were observed in the current term of leadership
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, m: New(), now: time.Unix(1e9, 0), by: make(map[string]*Deployment)}
		for i := range 3 {
			name := fmt.Sprint("m", i)
			w.by[name] = &Deployment{Name: name, Replicas: 1, MinReplicas: 1, MaxReplicas: 1 + i, Ready: true}
		}
		w.by["m3"] = &Deployment{
			Name: "m3", Replicas: 1, MinReplicas: 0, MaxReplicas: 1, Ready: true, IdleAfter: 5 * time.Second,
		}
		actions := map[string]func(*rapid.T){
			"tick": func(*rapid.T) { w.tick() }, "second": func(*rapid.T) { w.tick() },
			"view": func(*rapid.T) { w.view() }, "again": func(*rapid.T) { w.view() },
			"busy": func(t *rapid.T) {
				for range rapid.IntRange(1, 12).Draw(t, "seconds") {
					w.tick()
					w.view()
				}
			},
			"write end": func(t *rapid.T) {
				if w.writes > 0 || rapid.IntRange(0, 9).Draw(t, "stray") == 0 {
					w.writes = max(0, w.writes-1)
					w.do(func() []Effect { return w.m.WriteEnd(w.now) })
				}
			},
			"lease": func(t *rapid.T) { w.leads = rapid.IntRange(0, 3).Draw(t, "leads") > 0 },
			"change": func(t *rapid.T) {
				d := w.by[fmt.Sprint("m", rapid.IntRange(0, 2).Draw(t, "deployment"))]
				d.Revision++
				d.Replicas = rapid.IntRange(0, 4).Draw(t, "replicas")
				d.Ready = rapid.IntRange(0, 3).Draw(t, "ready") > 0
				d.Held = rapid.IntRange(0, 3).Draw(t, "held") == 0
			},
			"": func(*rapid.T) {},
		}
		for range 4 {
			t.Repeat(actions)
		}
	})
}

func (w *world) tick() {
	w.now = w.now.Add(time.Second)
	writing := w.writes > 0
	effects := w.do(func() []Effect { return w.m.Tick(w.leads, w.now) })
	if acts := len(effects) > 0; acts == writing {
		w.Fatalf("alive: %v, while a write is in flight: %v", effects, writing)
	}
}

func (w *world) view() {
	var all []Deployment
	for i := range 4 {
		d := *w.by[fmt.Sprint("m", i)]
		d.Load = schedule.Load{
			Serving: d.Replicas, Places: 10 * d.Replicas, Running: rapid.SampledFrom([]int{0, 5, 10}).Draw(w.T,
				"running") * d.Replicas,
		}
		if d.Tokens = rapid.Uint64Range(0, 1000).Draw(w.T, "tokens"); d.IdleAfter > 0 {
			d.Tokens = 0
		}
		all = append(all, d)
	}
	if w.leads && w.writes == 0 && !w.started {
		w.started, w.since = true, w.now
	}
	w.do(func() []Effect { return w.m.View(all, w.leads, w.now) })
}

// do carries out one event and checks its effects.
func (w *world) do(event func() []Effect) []Effect {
	before := w.picture()
	effects := event()
	for _, e := range effects {
		switch e := e.(type) {
		case Observe:
			if !w.leads {
				w.Fatal("leader: another node leads, and this one observes")
			}
		case Acquire:
			if w.started = false; w.leads {
				w.Fatal("leader: the leader acquires the lease")
			}
			w.startWrite()
		case Scale:
			w.checkScale(e)
			w.startWrite()
		case Ignored:
			if len(effects) > 1 || w.picture() != before {
				w.Fatalf("ignored: %v, and something changed", effects)
			}
		}
	}
	return effects
}

func (w *world) startWrite() {
	if w.writes++; w.writes > 1 {
		w.Fatal("one write: two are in flight")
	}
}

func (w *world) checkScale(e Scale) {
	d := w.by[e.Name]
	inRange := e.From >= d.MinReplicas && e.From <= d.MaxReplicas
	switch {
	case !w.leads:
		w.Fatal("leader: another node leads, and this one scales")
	case e.To == e.From || e.To < d.MinReplicas || e.To > d.MaxReplicas:
		w.Fatalf("range: %+v", e)
	case e.From == 0:
		w.Fatalf("stopped: %+v", e)
	case d.Held:
		w.Fatalf("held: %+v", e)
	case d.MinReplicas == d.MaxReplicas:
		w.Fatalf("fixed: %+v", e)
	case e.From != d.Replicas || e.Revision != d.Revision:
		w.Fatalf("observed: %+v, of %+v", e, *d)
	case e.Why == "":
		w.Fatalf("explained: %+v", e)
	case inRange && w.now.Sub(w.since) < 5*time.Second:
		w.Fatalf("fresh: %+v after %v of leadership", e, w.now.Sub(w.since))
	}
}

// picture formats the state of the machine.
func (w *world) picture() string {
	text := w.m.State().String()
	for _, name := range []string{"m0", "m1", "m2", "m3"} {
		if l := w.m.loads[name]; l != nil {
			text += fmt.Sprintf("%s: %+v %d %v\n", name, *l.scaler, l.tokens, l.observed)
		}
	}
	return text
}
