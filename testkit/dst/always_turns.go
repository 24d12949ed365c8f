package dst

import (
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

const (
	// reportedWithin is the virtual time within which a replica learns that its turn is overdue, if
	// another one runs a step meanwhile. A node may be paused.
	reportedWithin = 15 * time.Second
	// turnWithin is the virtual time within which a replica gets a turn in a calm run: a second, after
	// which it goes first, and a step of each of the other replicas.
	turnWithin = 1500 * time.Millisecond
)

// turnChecks checks the turns of the replicas of a device: at most one of them runs a step, unless the
// turn of another one is overdue.
type turnChecks struct {
	running map[*Device]int
	overdue map[string]map[string]bool // by node and replica: its turn is overdue
	both    map[string]time.Time       // by node: when two ran and none was known to be overdue
	taken   uint64                     // turns of one step
	reports uint64                     // of overdue turns
}

func newTurnChecks() turnChecks {
	return turnChecks{running: make(map[*Device]int), overdue: make(map[string]map[string]bool),
		both: make(map[string]time.Time)}
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
	t, node := &c.turns, nodeOf(d.info.UUID)
	if t.running[d]++; t.running[d] > 1 && len(t.overdue[node]) == 0 && t.both[node].IsZero() {
		t.both[node] = time.Now()
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

// turn follows a message about turns that an actor of a node is about to handle. The caller must hold
// c.mu.
func (c *checks) turn(address string, m proto.Message) {
	t, node := &c.turns, nodeOf(address)
	switch m := m.(type) {
	case *messages.ReplicaOverdue:
		t.reports++
		if t.overdue[node] == nil {
			t.overdue[node] = make(map[string]bool)
		}
		t.overdue[node][m.GetReplica()] = true
		c.checkBoth(node)
		delete(t.both, node)
	case *messages.TurnEnded:
		delete(t.overdue[node], m.GetReplica())
	case *messages.RequestTurn:
		delete(t.overdue[node], m.GetReplica())
	case *messages.TurnGranted:
		if !m.GetOpen() {
			t.taken++
		}
		if waited := m.GetWaited().AsDuration(); c.calm && waited > turnWithin {
			c.failLocked("%s on %s has waited %v for a turn", m.GetReplica(), node, waited)
		}
	}
}

// checkBoth checks that a replica whose node has run two steps at once has learned in time that its turn
// is overdue.
func (c *checks) checkBoth(node string) {
	if at := c.turns.both[node]; !at.IsZero() && time.Since(at) > reportedWithin {
		c.failLocked("two replicas of %s ran steps at once, and no turn was overdue", node)
	}
}

// checkTurns checks the nodes at the end of a run.
func (c *checks) checkTurns() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(c.turns.both)) {
		c.failLocked("two replicas of %s ran steps at once, and no turn was overdue", node)
	}
}
