package simulate

import (
	"time"

	core "troupe/core/replica"
	"troupe/core/turns"
)

// device carries out the effects of the machine that decides which of a device's replicas runs next.
type device struct {
	Device
	sim      *simulation
	index    int // of its event
	machine  *turns.Machine
	replicas []*replica
	timer    turns.SetTimer // of the last turn that has one
	up, down link           // from and to host memory
}

// name returns "node/device".
func (d *device) name() string { return d.Node + "/" + d.Name }

// ask asks for a turn.
func (d *device) ask(r *replica, e core.AskTurn, now time.Time) {
	d.join(r, now)
	d.perform(d.machine.Ask(r.name, e.Request, now), now)
}

// ended ends a turn.
func (d *device) ended(r *replica, e core.EndTurn, now time.Time) {
	d.join(r, now)
	if e.Next != nil {
		d.perform(d.machine.EndAndAsk(r.name, e.Turn, e.Used, *e.Next, now), now)
		return
	}
	d.perform(d.machine.End(r.name, e.Turn, e.Used, now), now)
}

// join adds a replica with its first message. The others may have their turn recalled, so their steps
// are brought up to date.
func (d *device) join(r *replica, now time.Time) {
	for _, other := range d.replicas {
		if other != r {
			other.sync(d.sim.key)
		}
	}
	if d.machine.State(r.name) == turns.Absent {
		d.perform(d.machine.Join(r.name, now), now)
	}
}

func (d *device) perform(effects []turns.Effect, now time.Time) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case turns.Grant:
			d.sim.record.turn(now, d, e)
			d.send(message{to: d.find(e.Replica), turn: e.Turn, granted: true, open: e.Open})
		case turns.Recall:
			d.send(message{to: d.find(e.Replica), turn: e.Turn})
		case turns.SetTimer:
			d.timer = e
			d.sim.queue.set(key{now.Add(e.After), turnTimer, d.index})
		}
	}
}

func (d *device) send(m message) {
	m.to.ends = nil // its steps may no longer be steady
	d.sim.mail = append(d.sim.mail, m)
}

func (d *device) find(name string) *replica {
	for _, r := range d.replicas {
		if r.name == name {
			return r
		}
	}
	panic("simulate: " + d.name() + " has no replica " + name)
}

// onTimer handles the timer of a turn. One that has ended is ignored by the machine.
func (d *device) onTimer() {
	now := d.sim.key.at
	d.perform(d.machine.Timer(d.timer.Replica, d.timer.Turn, now), now)
}
