package dst

import (
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/node/query"
)

// turnWithin is the virtual time within which a replica gets a turn in a calm run: a second, after
// which it goes first, and a step of each of the other replicas.
const turnWithin = 1500 * time.Millisecond

// turnChecks checks the turns of the replicas of a device: at most one of them runs a step, unless the
// turn of another one is overdue.
type turnChecks struct {
	running map[*Device]int
	overdue map[string]map[string]bool // by device, "n0/gpu-0", and replica: its turn is overdue
	started map[string]uint64          // by node and replica: incarnation that last requested a turn
	taken   uint64                     // turns of one step
	reports uint64                     // of overdue turns
}

func newTurnChecks() turnChecks {
	return turnChecks{running: make(map[*Device]int), overdue: make(map[string]map[string]bool),
		started: make(map[string]uint64)}
}

// nodeOf returns the node of a device, or of an address.
func nodeOf(name string) string { return name[:strings.IndexAny(name+":", ":-")] }

// stepBegins checks that no other replica of the device runs a step.
func (c *checks) stepBegins(d *Device) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.turns
	if t.running[d]++; t.running[d] > 1 && len(t.overdue[d.name()]) == 0 {
		c.failLocked("two replicas of %s run steps at once, and no turn is overdue", d.name())
	}
}

func (c *checks) stepEnds(d *Device) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns.running[d]--
}

// crashed forgets the turns of the devices of a node.
func (c *checks) crashed(node string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for device := range c.turns.overdue {
		if strings.HasPrefix(device, node+"/") {
			delete(c.turns.overdue, device)
		}
	}
}

// turn follows a message about turns that an actor is about to handle: one of a gpu actor, or one to it. The
// caller must hold c.mu.
func (c *checks) turn(self *actor.PID, m proto.Message) {
	t, node := &c.turns, nodeOf(self.GetAddress())
	device := node + "/" + strings.TrimPrefix(self.GetId(), query.GPU(""))
	switch m := m.(type) {
	case *messages.TurnEnded:
		delete(t.overdue[device], m.GetReplica())
	case *messages.RequestTurn: // a repeated one ends no turn, but that of a new incarnation does
		name := node + "/" + m.GetReplica()
		if m.GetStarted() != t.started[name] {
			t.started[name] = m.GetStarted()
			delete(t.overdue[device], m.GetReplica())
		}
	case *messages.TurnGranted:
		if !m.GetOpen() {
			t.taken++
		}
		if waited := m.GetWaited().AsDuration(); c.calm && waited > turnWithin {
			c.failLocked("%s on %s has waited %v for a turn", m.GetReplica(), node, waited)
		}
	}
}

// posted follows a message that an actor of a node sends to another one: a turn is overdue once the gpu actor
// says so. A replica that waits for its step to end before it starts again learns of it after the step.
func (c *checks) posted(node string, message any) {
	m, ok := message.(*messages.ReplicaOverdue)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.turns
	t.reports++
	device := node + "/" + m.GetGpu()
	if t.overdue[device] == nil {
		t.overdue[device] = make(map[string]bool)
	}
	t.overdue[device][m.GetReplica()] = true
}
