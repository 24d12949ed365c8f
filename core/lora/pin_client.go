package lora

import (
	"fmt"
	"maps"
	"slices"
)

// Desk is where requests ask for the adapters of a Pool that is somewhere else: it answers by what the pool said last, and collects what
// the pool is to be told. A request waits as Loading until the pool has answered. It is not safe for concurrent use.
type Desk struct {
	life   string
	number uint64
	pins   map[string]*pin  // by request
	names  map[string]*pin  // the same by name, and those that the pool was not told the end of
	here   map[string]Where // by adapter; those on disk alone are not in it
	asks   []Ask            // in order
	users  map[string]int   // by adapter: pins
}

// pin is one request's hold on an adapter.
type pin struct {
	name, adapter string
	state         pinState
	refusal       *Refusal // with refused
	held          bool     // it was granted, whatever it is now
}

type pinState int

const (
	asked pinState = iota + 1
	granted
	refused
	ended
)

// Ask is what the pool is to be told: a pin begins, or ends.
type Ask struct {
	Name    string // of the pin: a request that asks again is another one
	Adapter string
	End     bool
}

// Where an adapter is, and what it does.
type Where struct {
	State State
	Tier  Tier
}

// NewDesk returns a desk without pins. Life makes its pins differ from those of other desks that ask the same pool.
func NewDesk(life string) *Desk {
	return &Desk{
		life: life, pins: make(map[string]*pin), names: make(map[string]*pin), here: make(map[string]Where), users: make(map[string]int),
	}
}

// Pin implements Keeper. A refusal for want of room stands until something was given back.
func (d *Desk) Pin(request, adapter string) (State, *Refusal) {
	p, ok := d.pins[request]
	switch {
	case ok && p.adapter != adapter:
		return Absent, refuse(Duplicate, "request %s holds adapter %s already", request, p.adapter)
	case ok && p.state == granted:
		return Active, nil
	case ok && p.state == refused:
		return Absent, p.refusal
	case ok:
		return Loading, nil
	}
	d.number++
	p = &pin{name: fmt.Sprintf("%s#%s.%d", request, d.life, d.number), adapter: adapter, state: asked}
	d.pins[request], d.names[p.name] = p, p
	d.users[adapter]++
	d.asks = append(d.asks, Ask{Name: p.name, Adapter: adapter})
	return Loading, nil
}

// Unpin implements Keeper.
func (d *Desk) Unpin(request string) {
	p, ok := d.pins[request]
	if !ok {
		return
	}
	delete(d.pins, request)
	d.leave(p)
	if p.state == refused {
		delete(d.names, p.name)
		return
	}
	p.state = ended
	if i := slices.IndexFunc(d.asks, func(a Ask) bool { return a.Name == p.name }); i >= 0 { // the pool never heard of it
		d.asks = slices.Delete(d.asks, i, i+1)
		delete(d.names, p.name)
	} else {
		d.asks = append(d.asks, Ask{Name: p.name, Adapter: p.adapter, End: true})
	}
	d.retry()
}

// leave counts one user less.
func (d *Desk) leave(p *pin) {
	if d.users[p.adapter]--; d.users[p.adapter] == 0 {
		delete(d.users, p.adapter)
	}
}

// State implements Keeper.
func (d *Desk) State(adapter string) (State, Tier) {
	w := d.here[adapter]
	return w.State, w.Tier
}

// retry has those ask again that were refused for want of room.
func (d *Desk) retry() {
	maps.DeleteFunc(d.pins, func(_ string, p *pin) bool {
		again := p.state == refused && p.refusal.Reason == NoRoom
		if again {
			delete(d.names, p.name)
			d.leave(p)
		}
		return again
	})
}

// Asks returns what the pool is to be told now, in order. While a step reads adapters no pin ends.
func (d *Desk) Asks(stepping bool) []Ask {
	all := d.asks
	d.asks = nil
	return slices.DeleteFunc(all, func(a Ask) bool {
		if a.End && stepping {
			d.asks = append(d.asks, a)
			return true
		}
		if a.End {
			delete(d.names, a.Name)
		}
		return false
	})
}

// Answered notes the pool's answer to a pin: it holds, or why not. A pin that held and was taken away is asked for no more.
func (d *Desk) Answered(name string, refusal *Refusal) {
	p, ok := d.names[name]
	if !ok || p.state == ended {
		return
	}
	if refusal != nil {
		p.state, p.refusal = refused, refusal
		return
	}
	p.state, p.held = granted, true
}

// Told notes where an adapter is now.
func (d *Desk) Told(adapter string, w Where) {
	if w.State == Absent && w.Tier == Disk {
		delete(d.here, adapter)
	} else {
		d.here[adapter] = w
	}
	if w.State == Idle || w.State == Absent {
		d.retry()
	}
}

// Restarted says that the pool is in a new life, and knows of no pin. It returns the pins that must hold from its beginning, since steps
// may read what they keep; the others are among the next Asks.
func (d *Desk) Restarted() (hold []Ask) {
	clear(d.here)
	d.asks = nil
	d.retry()
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		p := d.names[name]
		switch a := (Ask{Name: name, Adapter: p.adapter}); {
		case p.state == asked:
			d.asks = append(d.asks, a)
		case p.state == granted:
			hold = append(hold, a)
		case p.state == ended && p.held: // a step may read it
			hold = append(hold, a)
			d.asks = append(d.asks, Ask{Name: name, Adapter: p.adapter, End: true})
		case p.state == ended:
			delete(d.names, name)
		}
	}
	return hold
}

// Here returns the adapters that are not on disk alone.
func (d *Desk) Here() map[string]Where { return d.here }

// Users is how many requests hold an adapter, or ask for it.
func (d *Desk) Users(adapter string) int { return d.users[adapter] }

// Awaited is how many requests have no adapter yet.
func (d *Desk) Awaited() (n int) {
	for _, p := range d.pins {
		if p.state != granted {
			n++
		}
	}
	return n
}
