package turns

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1e9, 0)

// world is a device with replicas that follow the protocol. It checks the invariants of doc.go.
type world struct {
	*rapid.T
	m, twin  *Machine // twin gets the same events
	cfg      Config
	now      time.Time
	replicas map[string]*peer
	granted  map[uint64]string // by turn
	longest  time.Duration     // longest turn so far
	most     int               // most replicas at a time
}

// peer is a replica as its own side sees it.
type peer struct {
	state   State
	request Request
	turn    uint64
	began   time.Time // of the turn, or of the wait
	due     time.Time // timer of the turn; zero: none
	grants  int       // since another replica last waited
}

func newWorld(t *rapid.T, cfg Config) *world {
	return &world{T: t, m: New(cfg), twin: New(cfg), cfg: cfg.withDefaults(), now: epoch,
		replicas: make(map[string]*peer), granted: make(map[uint64]string)}
}

// do feeds an event to both machines, and follows the effects.
func (w *world) do(f func(*Machine) []Effect) []Effect {
	effects, same := f(w.m), f(w.twin)
	if !reflect.DeepEqual(effects, same) {
		w.Fatalf("deterministic: %v and %v", effects, same)
	}
	for _, e := range effects {
		w.follow(e)
	}
	w.check()
	return effects
}

func (w *world) follow(e Effect) {
	switch e := e.(type) {
	case Grant:
		p := w.replicas[e.Replica]
		w.granting(e)
		if w.granted[e.Turn] != "" {
			w.Fatalf("turns: turn %d is granted twice", e.Turn)
		}
		w.granted[e.Turn] = e.Replica
		w.judge(e, p)
		p.state, p.turn, p.began, p.due = Holding, e.Turn, w.now, time.Time{}
		if p.grants++; e.Open {
			p.state = Open
		}
	case Recall:
		p := w.replicas[e.Replica]
		if p.state != Open || p.turn != e.Turn {
			w.Fatalf("recalled: %s has no open turn %d", e.Replica, e.Turn)
		}
		p.state, p.began = Recalled, w.now
	case SetTimer:
		w.replicas[e.Replica].due = w.now.Add(e.After)
	case ReportOverdue:
		p := w.replicas[e.Replica]
		if e.Turn == 0 {
			delete(w.replicas, e.Replica)
			return
		}
		if least := w.limit(p); w.now.Sub(p.began) < least {
			w.Fatalf("overdue after %v, before %v", w.now.Sub(p.began), least)
		}
		p.state, p.due = Overdue, time.Time{}
	case Ignored:
	default:
		w.Fatalf("unknown effect %T", e)
	}
}

func (w *world) limit(p *peer) time.Duration {
	return max(w.cfg.MinOverdue, time.Duration(w.cfg.OverdueAfter*float64(p.request.Estimate)))
}

// judge checks that the grant of a turn is right among those that wait.
func (w *world) judge(e Grant, p *peer) {
	waited := w.now.Sub(p.began)
	if most := w.cfg.MaxWait + time.Duration(w.most)*w.longest; waited > most {
		w.Fatalf("bounded: %s waited %v, more than %v", e.Replica, waited, most)
	}
	for _, name := range w.waiting() {
		if o := w.replicas[name]; name == e.Replica {
			continue
		} else if o.request.Class > p.request.Class && waited < w.cfg.MaxWait {
			w.Fatalf("classes: %s goes before %s", e.Replica, name)
		} else if e.Open {
			w.Fatalf("recalled: the turn of %s is open while %s waits", e.Replica, name)
		} else {
			w.punctual(e, p, name, o)
			w.prompts(e, p, name, o)
		}
	}
}

// punctual checks that o, which waits, could let p go first: it has time for that, or is too late
// anyway, or was not allowed to go first.
func (w *world) punctual(e Grant, p *peer, name string, o *peer) {
	if e.Why == Waited || p.request.Class != o.request.Class || o.request.Deadline.IsZero() {
		return
	}
	slack := o.request.Deadline.Sub(w.now) - o.request.Estimate
	ahead := w.m.get(name).virtual() - w.least(o.request.Class)
	misses := slack >= 0 && slack < p.request.Estimate
	if misses && ahead <= w.cfg.Lead.Seconds() &&
		(e.Why != Pressed || p.request.Deadline.After(o.request.Deadline)) {
		w.Fatalf("punctual: %s goes first (%s), and %s misses its deadline", e.Replica, e.Why, name)
	}
}

// prompts checks that o, which has a prompt, could let p go first, which has none.
func (w *world) prompts(e Grant, p *peer, name string, o *peer) {
	ahead := w.m.get(name).virtual() - w.least(o.request.Class)
	if p.request.Class == o.request.Class && o.request.Prompt && !p.request.Prompt && ahead <= w.cfg.Lead.Seconds() &&
		e.Why != Waited && e.Why != Pressed {
		w.Fatalf("prompts: %s goes first (%s), and %s has a prompt", e.Replica, e.Why, name)
	}
}

// least returns the least virtual time of those that wait in a class. The machine has granted the
// turn already, so the holder counts, too.
func (w *world) least(c Class) float64 {
	least := -1.0
	for _, r := range w.m.replicas {
		if (r.state == Waiting || r == w.m.holder) && r.request.Class == c && (least < 0 || r.virtual() < least) {
			least = r.virtual()
		}
	}
	return least
}

// granting checks that a turn may be granted.
func (w *world) granting(e Grant) {
	if all := w.in(Expected); len(all) > 0 {
		w.Fatalf("expected: turn %d is granted, and %v are expected", e.Turn, all)
	}
	if e.Turn <= w.cfg.Granted {
		w.Fatalf("turns: turn %d was granted by an earlier machine", e.Turn)
	}
}

func (w *world) waiting() []string { return w.in(Waiting) }

// in returns the replicas in a state.
func (w *world) in(s State) (names []string) {
	for name, p := range w.replicas {
		if p.state == s {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// check checks the state between events.
func (w *world) check() {
	var holders []string
	for name, p := range w.replicas {
		if got := w.m.State(name); got != p.state {
			w.Fatalf("%s is %s, its own side says %s", name, got, p.state)
		}
		if p.state == Holding || p.state == Open || p.state == Recalled {
			holders = append(holders, fmt.Sprint(name, " ", p.state))
		}
		if (p.state == Holding || p.state == Recalled || p.state == Expected) != !p.due.IsZero() {
			w.Fatalf("%s is %s, timer %v", name, p.state, p.due)
		}
	}
	waiting := w.waiting()
	if len(holders) > 1 {
		w.Fatalf("exclusive: %v hold turns", holders)
	}
	if len(waiting) > 0 && len(holders) == 0 && len(w.in(Expected)) == 0 {
		w.Fatalf("busy: %v wait and no replica holds a turn", waiting)
	}
	for name, p := range w.replicas {
		if len(waiting) > 0 && p.state == Open {
			w.Fatalf("recalled: %v wait while the turn of %s is open", waiting, name)
		}
	}
	if all := w.m.Status(); len(all) != len(w.replicas) {
		w.Fatalf("%v share the device, want %d", all, len(w.replicas))
	}
}
