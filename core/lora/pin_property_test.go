package lora

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pinWorld is a PinClient, a pool reduced to its pins, and a replica that runs steps.
type pinWorld struct {
	*rapid.T
	d        *PinClient
	wants    map[string]string // by request; the adapter that it wants
	pool     map[string]string // pins at the pool; by name: the adapter
	answers  []string          // names of pins that the pool has not answered
	granted  map[string]bool   // names of pins that were granted and are not unpinned at the pool
	stepping bool
	reading  map[string]bool // names of pins that the step in flight reads
	sent     map[string]bool // names of all pins sent to this incarnation of the pool
}

// TestPinInvariants checks the invariants of pins in doc.go with random events.
func TestPinInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &pinWorld{
			T: t, d: NewPinClient("7"), wants: map[string]string{}, pool: map[string]string{},
			granted: map[string]bool{}, reading: map[string]bool{}, sent: map[string]bool{},
		}
		requests, adapters := []string{"1", "2", "3"}, []string{"a", "b"}
		t.Repeat(map[string]func(*rapid.T){
			"pin": func(t *rapid.T) {
				request := rapid.SampledFrom(requests).Draw(t, "request")
				if w.wants[request] == "" {
					w.wants[request] = rapid.SampledFrom(adapters).Draw(t, "adapter")
				}
				w.pin(request)
			},
			"unpin": func(t *rapid.T) {
				request := rapid.SampledFrom(requests).Draw(t, "request")
				delete(w.wants, request)
				w.d.Unpin(request)
			},
			"drain": func(*rapid.T) { w.drain() },
			"answer": func(t *rapid.T) {
				if len(w.answers) > 0 {
					w.answer(rapid.IntRange(0, len(w.answers)-1).Draw(t, "answer"))
				}
			},
			"room": func(*rapid.T) { w.d.OnState("c", Location{Idle, GPU}) },
			"step": func(*rapid.T) { w.step() },
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					w.restart()
				}
			},
			"": func(*rapid.T) { w.check() },
		})
		w.finish()
	})
}

func (w *pinWorld) pin(request string) State {
	state, why := w.d.Pin(request, w.wants[request])
	_, holds := w.d.PinOf(request)
	if holds != (state == Active) || (why != nil) != (state == Absent) {
		w.Fatalf("granted: %s is %s, %v; holds: %v", request, state, why, holds)
	}
	return state
}

// drain sends the queued commands to the pool.
func (w *pinWorld) drain() {
	for _, c := range w.d.Drain(w.stepping) {
		switch {
		case !c.Unpin && w.sent[c.Name]:
			w.Fatalf("once: pin %s was sent twice", c.Name)
		case !c.Unpin:
			w.sent[c.Name], w.pool[c.Name] = true, c.Adapter
			w.answers = append(w.answers, c.Name)
		case w.reading[c.Name]:
			w.Fatalf("read: %s was unpinned while a step reads its adapter", c.Name)
		case !w.sent[c.Name]:
			w.Fatalf("once: %s was unpinned and never pinned", c.Name)
		default:
			delete(w.pool, c.Name)
			delete(w.granted, c.Name)
		}
	}
}

func (w *pinWorld) answer(i int) {
	name := w.answers[i]
	w.answers = slices.Delete(w.answers, i, i+1)
	if _, pinned := w.pool[name]; !pinned {
		return
	}
	switch rapid.IntRange(0, 3).Draw(w.T, "how") {
	case 0:
		delete(w.pool, name)
		w.d.OnPinResult(name, refuse(NoRoom, "full"))
	case 1:
		delete(w.pool, name)
		w.d.OnPinResult(name, refuse(Failed, "damaged"))
	default:
		w.granted[name] = true
		w.d.OnPinResult(name, nil)
	}
}

// step starts a step that reads the adapters of all granted pins, or ends the step.
func (w *pinWorld) step() {
	w.stepping = !w.stepping
	clear(w.reading)
	for name, p := range w.d.byName {
		if w.stepping && p.state == granted {
			w.reading[name] = true
		}
	}
}

func (w *pinWorld) restart() {
	clear(w.pool)
	clear(w.sent)
	w.answers = nil
	before := w.granted
	w.granted = map[string]bool{}
	for _, c := range w.d.OnPoolRestart() {
		if !before[c.Name] {
			w.Fatalf("held: %s was not granted before", c.Name)
		}
		w.sent[c.Name], w.pool[c.Name], w.granted[c.Name] = true, c.Adapter, true
	}
	for name := range w.reading {
		if !w.granted[name] {
			w.Fatalf("held: a step reads the adapter of %s", name)
		}
	}
}

func (w *pinWorld) check() {
	users := map[string]int{}
	for request, p := range w.d.pins {
		if w.wants[request] != p.adapter {
			w.Fatalf("users: %s holds %s and wants %s", request, p.adapter, w.wants[request])
		}
		if users[p.adapter]++; p.state == granted && !w.granted[p.name] {
			w.Fatalf("granted: %s was not granted", p.name)
		}
	}
	for _, adapter := range []string{"a", "b"} {
		if w.d.Users(adapter) != users[adapter] {
			w.Fatalf("users: %d of %s, want %d", w.d.Users(adapter), adapter, users[adapter])
		}
	}
}

// finish checks that, once all commands are sent, the pool has exactly the pins of the requests.
func (w *pinWorld) finish() {
	w.stepping = false
	clear(w.reading)
	w.drain()
	want := map[string]string{}
	for _, p := range w.d.pins {
		if p.state == requested || p.state == retried || p.state == granted {
			want[p.name] = p.adapter
		}
	}
	if fmt.Sprint(w.pool) != fmt.Sprint(want) || len(w.d.byName) != len(w.d.pins) {
		w.Fatalf("nothing left: the pool has %v, want %v; %d names", w.pool, want, len(w.d.byName))
	}
}
