package lora

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// admitWorld is an Admission, its PinClient, and a Pool, which exchange messages. Copies end at once.
type admitWorld struct {
	*rapid.T
	admission *Admission
	client    *PinClient
	pool      *Pool
	adapters  []string
	reported  map[string]Location // by adapter, as the pool reported it last
	now       time.Time
	waiting   []Waiting
	running   []Waiting
	stepping  bool
	names     int
	grants    int    // pages that the pool gets if it asks
	pages     uint32 // that the pool has
}

// maxRunning is the maximum number of sequences in the batch.
const maxRunning = 3

// maxExchanges is the number of exchanges after which nothing may be sent any longer.
const maxExchanges = 40

func newAdmitWorld(t *rapid.T) *admitWorld {
	w := &admitWorld{T: t, client: NewPinClient("1"), reported: map[string]Location{}, now: epoch}
	w.pages = uint32(rapid.IntRange(3, 6).Draw(t, "pages"))
	w.grants = rapid.IntRange(0, 2).Draw(t, "grants")
	w.pool = NewPool(Config{Grow: rapid.Bool().Draw(t, "grow")})
	w.addPages(0)
	for i := range 5 {
		w.adapters = append(w.adapters, fmt.Sprint("a", i))
		w.pool.Register(w.adapters[i], pageLayout(rapid.IntRange(1, 3).Draw(t, "size")))
	}
	w.admission = NewAdmission(Policy{Lookahead: rapid.IntRange(0, 4).Draw(t, "lookahead"),
		MaxAdapters: rapid.IntRange(0, 2).Draw(t, "adapters")}, w.client)
	return w
}

func (w *admitWorld) addPages(n int) {
	w.pages += uint32(n)
	var all []uint32
	for page := range w.pages {
		all = append(all, page)
	}
	w.pool.Granted(all)
}

// TestAdmissionInvariants checks the invariants of an Admission in doc.go with random events.
func TestAdmissionInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newAdmitWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				w.names++
				w.waiting = append(w.waiting, Waiting{ID: fmt.Sprint("r", w.names), Arrived: w.now,
					Adapter: rapid.SampledFrom(append(w.adapters, "")).Draw(t, "adapter"),
					Class:   rapid.IntRange(0, 1).Draw(t, "class")})
			},
			"end":  func(t *rapid.T) { w.end(&w.running) },
			"left": func(t *rapid.T) { w.end(&w.waiting) },
			"operator": func(t *rapid.T) {
				adapter := rapid.SampledFrom(w.adapters).Draw(t, "adapter")
				if have, _ := w.client.PinOf("operator:" + adapter); have != "" {
					w.client.Unpin("operator:" + adapter)
				} else {
					w.client.Pin("operator:"+adapter, adapter)
				}
			},
			"step": func(*rapid.T) { w.stepping = len(w.running) > 0 && !w.stepping },
			"time": func(*rapid.T) { w.now = w.now.Add(200 * time.Millisecond) },
			"":     func(*rapid.T) { w.rest() },
		})
		w.finish()
	})
}

// end ends one of some requests.
func (w *admitWorld) end(all *[]Waiting) {
	if r, ok := pick(draws{w.T}, all); ok {
		w.client.Unpin(r.ID)
	}
}

// rest exchanges messages until none is sent.
func (w *admitWorld) rest() {
	var sent []PinCommand
	for range maxExchanges {
		w.plan()
		if sent = w.exchange(); len(sent) == 0 {
			return
		}
	}
	w.Fatalf("at rest: after %d exchanges, these are sent: %v", maxExchanges, sent)
}

// plan admits requests, as a replica does when something has changed. A step in flight cannot take one.
func (w *admitWorld) plan() {
	if w.stepping {
		w.admission.PrefetchAdapters(w.waiting)
		return
	}
	var running []string
	for _, r := range w.running {
		running = append(running, r.Adapter)
	}
	w.admission.Admit(slices.Clone(w.waiting), running, w.now, func(r Waiting) bool {
		if len(w.running) == maxRunning {
			return false
		}
		w.running = append(w.running, r)
		w.waiting = slices.DeleteFunc(w.waiting, func(v Waiting) bool { return v.ID == r.ID })
		return true
	})
	w.admission.PrefetchAdapters(w.waiting)
}

// exchange sends the queued commands to the pool, and its reports and answers to the client. It returns
// the commands.
func (w *admitWorld) exchange() []PinCommand {
	commands := w.client.Drain(w.stepping)
	var answers []func()
	for _, c := range commands {
		if c.Unpin {
			w.pool.Unpin(c.Name)
		} else if state, refusal := w.pool.Pin(c.Name, c.Adapter); refusal != nil || state == Active {
			answers = append(answers, func() { w.answer(c.Name, refusal) })
		}
		answers = append(answers, w.carryOut()...)
	}
	for _, answer := range answers {
		answer()
	}
	return commands
}

// carryOut carries out the actions of the pool, and returns its answers and reports, in order.
func (w *admitWorld) carryOut() (answers []func()) {
	for actions := w.pool.Actions(); len(actions) > 0; actions = w.pool.Actions() {
		for _, action := range actions {
			switch a := action.(type) {
			case Load:
				w.pool.Loaded(a.Adapter, Disk, nil)
			case Evict:
				w.pool.Evicted(a.Adapter)
			case Grow:
				n := min(a.Pages, w.grants)
				w.grants -= n
				w.addPages(n)
			case Ready:
				answers = append(answers, func() { w.answer(a.Request, nil) })
			case Lost:
				answers = append(answers, func() { w.answer(a.Request, a.Refusal) })
			}
			answers = append(answers, w.report()...)
		}
	}
	return append(answers, w.report()...)
}

// answer gives the pool's answer to the client. A refused pin of an operator ends.
func (w *admitWorld) answer(name string, refusal *Refusal) {
	request, _ := w.client.RequestOf(name)
	w.client.OnPinResult(name, refusal)
	if refusal != nil && strings.HasPrefix(request, "operator:") {
		w.client.Unpin(request)
	}
}

// report returns the reports of what has changed.
func (w *admitWorld) report() (reports []func()) {
	for _, id := range w.adapters {
		state, tier := w.pool.State(id)
		if at := (Location{state, tier}); at != w.reported[id] {
			w.reported[id] = at
			reports = append(reports, func() { w.client.OnState(id, at) })
		}
	}
	return reports
}

// finish ends the pins of operators and the sequences until no request waits.
func (w *admitWorld) finish() {
	for _, adapter := range w.adapters {
		w.client.Unpin("operator:" + adapter)
	}
	for range 3 * (len(w.waiting) + len(w.running) + 1) {
		w.stepping = false
		for len(w.running) > 0 {
			w.client.Unpin(w.running[0].ID)
			w.running = w.running[1:]
		}
		w.rest()
		w.now = w.now.Add(time.Second)
		w.pool.Retry()
	}
	if len(w.waiting) > 0 {
		w.Fatalf("served: %v still wait", w.waiting)
	}
}
