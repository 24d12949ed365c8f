package lora

import (
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
	name, request, adapter string
	state                  pinState
	refusal                *Refusal // the last one
}

// PinCommand is a command for the pool: to pin an adapter or to unpin it.
type PinCommand struct {
	Name    string // of the pin; a request that pins again uses a new name
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

// Pin implements Residency. A NoRoom refusal stands until something is released. The request then asks
// again, and is Pending until the pool answers or begins to load the adapter.
func (d *PinClient) Pin(request, adapter string) (State, *Refusal) {
	p, ok := d.pins[request]
	if !ok {
		p = &pin{request: request, adapter: adapter}
	}
	if p.adapter != adapter {
		return Absent, refuse(Duplicate, "request %s holds adapter %s already", request, p.adapter)
	}
	d.apply(pinEvent{kind: pinAsked, pin: p})
	switch {
	case p.state == granted:
		return Active, nil
	case p.state == requested, p.state == retried && d.locations[adapter].State == Loading:
		return Loading, nil
	case p.state == retried:
		return Pending, nil
	}
	return Absent, p.refusal
}

// Unpin implements Residency. A pin that was not granted has taken no room yet; if the pool has begun
// to load its adapter, it reports when the adapter is idle. Otherwise two requests that lack room
// would make each other try again forever.
func (d *PinClient) Unpin(request string) {
	p, ok := d.pins[request]
	if !ok {
		return
	}
	held := p.state == granted
	if d.apply(pinEvent{kind: pinEnded, pin: p}); held {
		d.roomFreed()
	}
}

// State implements Residency.
func (d *PinClient) State(adapter string) (State, Tier) {
	w := d.locations[adapter]
	return w.State, w.Tier
}

// roomFreed lets requests that were refused with NoRoom ask again.
func (d *PinClient) roomFreed() {
	for _, request := range slices.Sorted(maps.Keys(d.pins)) {
		d.apply(pinEvent{kind: pinRoom, pin: d.pins[request]})
	}
}

// Drain returns and clears the queued commands, in order. While a step reads adapters, unpin
// commands stay queued.
func (d *PinClient) Drain(stepping bool) (sent []PinCommand) {
	all := d.commands
	d.commands = nil
	for _, c := range all {
		if c.Unpin && stepping {
			d.commands = append(d.commands, c)
			continue
		}
		if sent = append(sent, c); c.Unpin {
			d.apply(pinEvent{kind: pinUnpinSent, pin: d.byName[c.Name]})
		}
	}
	return sent
}

// OnPinResult records the pool's answer to a pin; a nil refusal grants it. A refusal also ends a
// granted pin, which is not requested again.
func (d *PinClient) OnPinResult(name string, refusal *Refusal) {
	if p, ok := d.byName[name]; ok {
		d.apply(pinEvent{kind: pinAnswered, pin: p, refusal: refusal})
	}
}

// OnState records the location of an adapter.
func (d *PinClient) OnState(adapter string, w Location) {
	if w.State == Absent && w.Tier == Disk {
		delete(d.locations, adapter)
	} else {
		d.locations[adapter] = w
	}
	if w.State == Idle || w.State == Absent {
		d.roomFreed()
	}
}

// OnPoolRestart resets the client after the pool restarted without any pins. It returns the pins
// that must hold from the start, since steps may read those adapters. All others are queued for
// Drain.
func (d *PinClient) OnPoolRestart() (hold []PinCommand) {
	clear(d.locations)
	d.commands = nil
	d.roomFreed()
	for _, name := range slices.Sorted(maps.Keys(d.byName)) {
		p := d.byName[name]
		if d.apply(pinEvent{kind: pinPoolRestart, pin: p}); p.state == granted || p.state == released {
			hold = append(hold, PinCommand{Name: name, Adapter: p.adapter})
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
