package lora

import (
	"fmt"
	"maps"
	"slices"
)

// PinClient caches a remote Pool's last known state and queues pin and unpin commands for it. A
// request stays Loading until the pool has answered. A PinClient is not safe for concurrent use.
type PinClient struct {
	incarnation string
	seq         uint64
	pins        map[string]*pin     // by request
	byName      map[string]*pin     // by pin name; includes released pins whose unpin was not sent
	locations   map[string]Location // by adapter; without those that are only on disk
	commands    []PinCommand        // to be sent, in order
	users       map[string]int      // number of pins by adapter
}

// pin is one request's hold on an adapter.
type pin struct {
	name, adapter string
	state         pinState
	refusal       *Refusal // set in state refused
	wasGranted    bool     // it was granted at least once
}

type pinState int

const (
	requested pinState = iota + 1
	granted
	refused
	released
)

// PinCommand is a command for the pool: to pin an adapter or to unpin it.
type PinCommand struct { // of the pin; a request that pins again uses a new name
	Name    string // of the pin: a request that asks again is another one
	Adapter string
	Unpin   bool
}

// Location is the state of an adapter and the nearest tier that has it.
type Location struct {
	State State
	Tier  Tier
}

// NewPinClient returns a client without pins. The incarnation distinguishes its pins from those of
// other clients of the same pool.
func NewPinClient(incarnation string) *PinClient {
	return &PinClient{
		incarnation: incarnation, pins: make(map[string]*pin), byName: make(map[string]*pin),
		locations: make(map[string]Location), users: make(map[string]int),
	}
}

// Pin implements Residency. A NoRoom refusal stands until something is released.
func (d *PinClient) Pin(request, adapter string) (State, *Refusal) {
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
	d.seq++
	p = &pin{name: fmt.Sprintf("%s#%s.%d", request, d.incarnation, d.seq), adapter: adapter, state: requested}
	d.pins[request], d.byName[p.name] = p, p
	d.users[adapter]++
	d.commands = append(d.commands, PinCommand{Name: p.name, Adapter: adapter})
	return Loading, nil
}

// Unpin implements Residency.
func (d *PinClient) Unpin(request string) {
	p, ok := d.pins[request]
	if !ok {
		return
	}
	delete(d.pins, request)
	d.dropUser(p)
	if p.state == refused {
		delete(d.byName, p.name)
		return
	}
	p.state = released
	// never sent to the pool
	if i := slices.IndexFunc(d.commands, func(a PinCommand) bool { return a.Name == p.name }); i >= 0 {
		d.commands = slices.Delete(d.commands, i, i+1)
		delete(d.byName, p.name)
	} else {
		d.commands = append(d.commands, PinCommand{Name: p.name, Adapter: p.adapter, Unpin: true})
	}
	d.forgetRefused()
}

// dropUser decrements the number of pins of the adapter.
func (d *PinClient) dropUser(p *pin) {
	if d.users[p.adapter]--; d.users[p.adapter] == 0 {
		delete(d.users, p.adapter)
	}
}

// State implements Residency.
func (d *PinClient) State(adapter string) (State, Tier) {
	w := d.locations[adapter]
	return w.State, w.Tier
}

// forgetRefused forgets pins refused with NoRoom, so that their requests pin again.
func (d *PinClient) forgetRefused() {
	maps.DeleteFunc(d.pins, func(_ string, p *pin) bool {
		again := p.state == refused && p.refusal.Reason == NoRoom
		if again {
			delete(d.byName, p.name)
			d.dropUser(p)
		}
		return again
	})
}

// Drain returns and clears the queued commands, in order. While a step reads adapters, unpin
// commands stay queued.
func (d *PinClient) Drain(stepping bool) []PinCommand {
	all := d.commands
	d.commands = nil
	return slices.DeleteFunc(all, func(a PinCommand) bool {
		if a.Unpin && stepping {
			d.commands = append(d.commands, a)
			return true
		}
		if a.Unpin {
			delete(d.byName, a.Name)
		}
		return false
	})
}

// OnPinResult records the pool's answer to a pin; a nil refusal grants it. A refusal also ends a
// granted pin, which is not requested again.
func (d *PinClient) OnPinResult(name string, refusal *Refusal) {
	p, ok := d.byName[name]
	if !ok || p.state == released {
		return
	}
	if refusal != nil {
		p.state, p.refusal = refused, refusal
		return
	}
	p.state, p.wasGranted = granted, true
}

// OnState records the location of an adapter.
func (d *PinClient) OnState(adapter string, w Location) {
	if w.State == Absent && w.Tier == Disk {
		delete(d.locations, adapter)
	} else {
		d.locations[adapter] = w
	}
	if w.State == Idle || w.State == Absent {
		d.forgetRefused()
	}
}

// OnPoolRestart resets the client after the pool restarted without any pins. It returns the pins
// that must hold from the start, since steps may read those adapters. All others are queued for
// Drain.
func (d *PinClient) OnPoolRestart() (hold []PinCommand) {
	clear(d.locations)
	d.commands = nil
	d.forgetRefused()
	for _, name := range slices.Sorted(maps.Keys(d.byName)) {
		p := d.byName[name]
		switch a := (PinCommand{Name: name, Adapter: p.adapter}); {
		case p.state == requested:
			d.commands = append(d.commands, a)
		case p.state == granted:
			hold = append(hold, a)
		case p.state == released && p.wasGranted: // a step may still read the adapter
			hold = append(hold, a)
			d.commands = append(d.commands, PinCommand{Name: name, Adapter: p.adapter, Unpin: true})
		case p.state == released:
			delete(d.byName, name)
		}
	}
	return hold
}

// Locations returns the adapters that are not only on disk.
func (d *PinClient) Locations() map[string]Location { return d.locations }

// Users returns the number of requests that hold or wait for an adapter.
func (d *PinClient) Users(adapter string) int { return d.users[adapter] }

// Pending returns the number of requests that have no adapter yet.
func (d *PinClient) Pending() (n int) {
	for _, p := range d.pins {
		if p.state != granted {
			n++
		}
	}
	return n
}
