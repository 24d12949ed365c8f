package dst

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// HoldActor: from its next message of type Message on, an actor of Node whose ID begins with Actor handles
// nothing for For, as one does whose goroutine is not scheduled. This happens Count times. Only scenarios
// inject it, to let a message be later than another one.
const HoldActor FaultKind = "hold-actor"

// holds are the actors of a node that are about to handle nothing for some time.
type holds struct {
	mu      sync.Mutex
	pending []*Fault
}

// add adds a fault of the kind HoldActor.
func (h *holds) add(f Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = append(h.pending, &f)
}

// forget forgets the faults that have not occurred.
func (h *holds) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = nil
}

// take returns for how long an actor handles nothing before a message.
func (h *holds) take(id string, message any) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) == 0 {
		return 0
	}
	_, message, _ = actor.UnwrapEnvelope(message)
	name := fmt.Sprintf("%T", message)
	i := slices.IndexFunc(h.pending, func(f *Fault) bool {
		return strings.HasPrefix(id, f.Actor) && strings.TrimPrefix(name, "*messages.") == f.Message
	})
	if i < 0 {
		return 0
	}
	f := h.pending[i]
	if f.Count--; f.Count <= 0 {
		h.pending = slices.Delete(h.pending, i, i+1)
	}
	return f.For
}

// hold lets some time pass before the next turn of the actor, if a fault wants that. It reports whether it
// does. System messages wait too.
func (m *mailbox) hold() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held || m.suspended || len(m.system) > 0 || len(m.user) == 0 {
		m.held = false
		return false
	}
	d := m.dispatcher.holds.take(m.id, m.user[0])
	if d == 0 {
		return false
	}
	m.held = true // until its turn
	turn := task{key: m.dispatcher.node + " " + m.id, label: m.label, run: m.turn}
	m.dispatcher.world.at(time.Now().Add(d), func() string { return "end of the hold of " + m.id },
		func() { m.dispatcher.add(turn) })
	return true
}
