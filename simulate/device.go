package simulate

import (
	"slices"
	"time"

	memory "troupe/core/device"
	"troupe/core/quarantine"
	core "troupe/core/replica"
	"troupe/core/turns"
)

// device carries out the effects of the machine that decides which of a device's replicas runs next.
type device struct {
	Device
	fullName string
	sim      *simulation
	node     *node
	index    int // of its event
	machine  *turns.Machine
	replicas []*replica     // in the order in which they started
	timer    turns.SetTimer // of the last turn that has one

	memory     *memory.Memory
	health     *quarantine.Machine
	life       int  // counts the times that its memory was lost
	broken     bool // it fails whatever it is asked
	ticking    bool
	restless   time.Time       // until then its ticks may change something
	levels     map[string]bool // by replica: it is on standby, as last reported
	link, peer *pipe           // to host memory, and to other devices; peer is nil without such a link
	loads      int             // so far
	copying    []*copying      // to and from the device
	up, down   link            // from and to host memory, for adapters and KV blocks
	readers    map[string]reading
	origins    map[uint64]origin // by copy of weights

	held   holding           // by replicas
	leases map[string]*model // of the replicas that hold it, by name
	parts  []*replica        // of which a part beside the first one is here
	last   *model            // of the last replica that served here
}

func newDevice(d Device, s *simulation) *device {
	d.Costs = d.Costs.withDefaults()
	out := &device{Device: d, fullName: d.Node + "/" + d.Name, sim: s, leases: make(map[string]*model),
		link: &pipe{bandwidth: d.Costs.Link},
		up:   link{Link: d.Up, sim: s}, down: link{Link: d.Down, sim: s}}
	if d.Costs.Peer > 0 {
		out.peer = &pipe{bandwidth: d.Costs.Peer}
	}
	out.index = s.register(out)
	out.reset()
	return out
}

// reset gives the device an empty memory. The results of what was going on in the earlier one are ignored.
func (d *device) reset() {
	d.life++
	d.machine = turns.New(turns.Config{})
	d.levels, d.readers = make(map[string]bool), make(map[string]reading)
	d.origins, d.ticking = make(map[uint64]origin), false
	d.newMemory(d.sim.cfg.KVReserve, d.sim.key.at)
	d.sim.queue.clear(d.index)
	d.up.free, d.down.free = time.Time{}, time.Time{}
	aborted := d.copying
	d.copying = nil
	for _, c := range aborted {
		d.sim.copies.abort(c)
	}
}

// track notes a copy that ends if the device is lost.
func (d *device) track(c *copying) {
	d.copying = slices.DeleteFunc(d.copying, func(c *copying) bool { return !slices.Contains(d.sim.copies.all, c) })
	if c != nil {
		d.copying = append(d.copying, c)
	}
}

// name returns "node/device".
func (d *device) name() string { return d.fullName }

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

// send sends a message to a replica, unless it has ended.
func (d *device) send(m message) {
	if m.to == nil {
		return
	}
	m.to.ends = nil // its steps may no longer be steady
	d.sim.mail = append(d.sim.mail, m)
}

// find returns a replica; nil: it has ended.
func (d *device) find(name string) *replica {
	for _, r := range d.replicas {
		if r.name == name {
			return r
		}
	}
	return nil
}

// handle handles the timer of a turn. One that has ended is ignored by the machine.
func (d *device) handle(key) {
	now := d.sim.key.at
	d.perform(d.machine.Timer(d.timer.Replica, d.timer.Turn, now), now)
}
