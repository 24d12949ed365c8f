package dst

import (
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

// maxMailbox is the number of messages that may wait for an actor. There are up to 240 in the runs of the suite, if
// a node is paused.
const maxMailbox = 1000

// Dispatcher returns the dispatcher of a node's actors. The world decides which of their messages
// is handled next.
func (w *World) Dispatcher(node string) *Dispatcher { return &Dispatcher{world: w, node: node} }

// Dispatcher is the dispatcher of one node from its start to its crash. It implements
// supervise.MailboxSource.
type Dispatcher struct {
	world *World
	node  string
	dead  atomic.Bool
	// posted, if set, is called with each message of an actor before the actor gets it.
	posted func(node string, message any)
	// flooded, if set, is called when more than maxMailbox messages wait for an actor.
	flooded func(node, actor string)
	holds   holds

	mu      sync.Mutex
	paused  bool
	delayed []task // tasks that are delayed until resume
}

// add makes a task of the node runnable, unless the node is paused.
func (d *Dispatcher) add(t task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused {
		d.delayed = append(d.delayed, t)
		return
	}
	d.world.add(t)
}

func (d *Dispatcher) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = true
}

func (d *Dispatcher) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = false
	for _, t := range d.delayed {
		d.world.add(t)
	}
	d.delayed = nil
}

// Kill stops the node's actors: they handle no more messages.
func (d *Dispatcher) Kill() { d.dead.Store(true) }

// Schedule implements actor.Dispatcher.
func (d *Dispatcher) Schedule(f func()) {
	d.world.add(task{key: d.node, label: func() string { return d.node + " schedule" }, run: f})
}

// Throughput implements actor.Dispatcher.
func (d *Dispatcher) Throughput() int { return 1 }

// NewMailbox implements supervise.MailboxSource.
func (d *Dispatcher) NewMailbox() actor.Mailbox { return &mailbox{dispatcher: d} }

// mailbox passes one message per turn to its actor. System messages come first.
type mailbox struct {
	dispatcher *Dispatcher
	invoker    actor.MessageInvoker
	id         string // of the actor
	actors     *actor.ActorSystem

	mu        sync.Mutex
	started   bool
	stopped   bool // drops all user messages
	scheduled bool // a turn is runnable
	suspended bool
	held      bool // a fault has delayed the next turn
	system    []any
	user      []any
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	m.dispatcher.world.actions.Add(1)
	if posted := m.dispatcher.posted; posted != nil {
		_, unwrapped, _ := actor.UnwrapEnvelope(message)
		posted(m.dispatcher.node, unwrapped)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped {
		m.user = append(m.user, message)
		if flooded := m.dispatcher.flooded; flooded != nil && len(m.user) > maxMailbox {
			flooded(m.dispatcher.node, m.id)
		}
		m.schedule()
	}
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	m.dispatcher.world.actions.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.system = append(m.system, message)
	m.schedule()
}

// schedule makes a turn runnable if there is a message to handle. The caller must hold m.mu.
func (m *mailbox) schedule() {
	if m.scheduled || !m.started || len(m.system) == 0 && (m.suspended || len(m.user) == 0) {
		return
	}
	m.scheduled = true
	m.dispatcher.add(task{key: m.dispatcher.node + " " + m.id, label: m.label, run: m.turn})
}

// label returns the actor and the message of the next turn.
func (m *mailbox) label() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var next any
	switch {
	case len(m.system) > 0:
		next = m.system[0]
	case len(m.user) > 0:
		next = m.user[0]
	}
	_, message, sender := actor.UnwrapEnvelope(next)
	why := ""
	if r, ok := message.(interface{ GetRefused() *messages.Refused }); ok && r.GetRefused() != nil {
		why = " refused: " + r.GetRefused().GetDetail()
	}
	kind := "<nil>"
	if message != nil {
		kind = reflect.TypeOf(message).String()
	}
	return m.dispatcher.node + " " + m.id + " <- " + sender.GetId() + " " + kind + why
}

// turn handles one message. If the actor stops with it, the user messages sent meanwhile are dropped:
// whether a goroutine that the stop has ended still finds the actor depends on which is faster.
func (m *mailbox) turn() {
	if m.dispatcher.dead.Load() || m.hold() {
		return
	}
	m.mu.Lock()
	before := len(m.user)
	if len(m.system) > 0 {
		message := m.system[0]
		m.system = m.system[1:]
		switch message.(type) {
		case *actor.SuspendMailbox:
			m.suspended = true
		case *actor.ResumeMailbox:
			m.suspended = false
		}
		m.mu.Unlock()
		switch message.(type) {
		case *actor.SuspendMailbox, *actor.ResumeMailbox:
		default:
			m.guard(func() { m.invoker.InvokeSystemMessage(message) }, message)
		}
	} else if len(m.user) > 0 && !m.suspended {
		message := m.user[0]
		m.user = m.user[1:]
		before--
		m.mu.Unlock()
		see(message)
		m.guard(func() { m.invoker.InvokeUserMessage(message) }, message)
	} else {
		m.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, registered := m.actors.ProcessRegistry.GetLocal(m.id); !registered {
		m.stopped, m.user = true, m.user[:min(before, len(m.user))]
	}
	m.scheduled = false
	m.schedule()
}

// guard converts a panic of an actor to a failure for its supervisor, as protoactor does.
func (m *mailbox) guard(invoke func(), message any) {
	defer func() {
		if p := recover(); p != nil {
			m.invoker.EscalateFailure(p, message)
		}
	}()
	invoke()
}

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
	if ctx, ok := supervise.Unwrap(invoker).(actor.Context); ok {
		m.id, m.actors = ctx.Self().GetId(), ctx.ActorSystem()
	}
}

// Start implements actor.Mailbox.
func (m *mailbox) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = true
	m.schedule()
}

// UserMessageCount implements actor.Mailbox.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user)
}
