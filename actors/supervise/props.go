package supervise

import "github.com/asynkron/protoactor-go/actor"

// Props is actor.PropsFromProducer with Mailbox, for actors that are never restarted after a stop.
// All actors of the project use it.
func Props(producer actor.Producer, options ...actor.PropsOption) *actor.Props {
	return actor.PropsFromProducer(producer, append([]actor.PropsOption{actor.WithMailbox(Mailbox)}, options...)...)
}

// Mailbox returns protoactor's unbounded mailbox, except that a stopped actor is not restarted, and
// that a panic while it stops does not keep it from ending.
//
// Protoactor itself would start another incarnation for a restart that arrives after the stop,
// because it was in progress or delayed. That incarnation would replace the actor's end, for which
// the parent then waits forever. Or it would run after the end, unknown to its parent, on resources
// that belong to another actor by then.
//
// An actor with a name can be sent messages from the moment that its name is registered, which
// protoactor does before the mailbox has its handlers. The senders wait for these.
func Mailbox() actor.Mailbox {
	return &mailbox{Mailbox: actor.Unbounded()(), registered: make(chan struct{})}
}

type mailbox struct {
	actor.Mailbox
	registered chan struct{} // closed once the mailbox has its handlers
}

// MailboxSource is a dispatcher that provides the mailboxes of its actors. A simulation uses it to
// decide which message is handled next.
type MailboxSource interface {
	actor.Dispatcher
	NewMailbox() actor.Mailbox
}

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	if s, ok := dispatcher.(MailboxSource); ok {
		m.Mailbox = s.NewMailbox()
	}
	m.Mailbox.RegisterHandlers(EndAfterStop(invoker, m.Mailbox), dispatcher)
	close(m.registered)
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	<-m.registered
	m.Mailbox.PostUserMessage(message)
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	<-m.registered
	m.Mailbox.PostSystemMessage(message)
}

// EndAfterStop wraps an actor as Mailbox does, for mailboxes of other kinds. It needs to see only
// system messages and failures.
func EndAfterStop(invoker actor.MessageInvoker, mailbox actor.Mailbox) actor.MessageInvoker {
	return &stopInvoker{MessageInvoker: invoker, mailbox: mailbox}
}

// maxStopFailures is how often a stopping actor may panic and is still brought to its end.
const maxStopFailures = 3

// stopInvoker drops restarts after a stop, and ends an actor that panics while it stops. It is used
// by one goroutine at a time.
type stopInvoker struct {
	actor.MessageInvoker
	mailbox  actor.Mailbox
	stopped  bool
	failures int // after the stop
}

// Unwrap returns the actor's context behind wrappers that have a method Unwrap themselves.
func Unwrap(invoker actor.MessageInvoker) actor.MessageInvoker {
	for {
		wrapper, ok := invoker.(interface{ Unwrap() actor.MessageInvoker })
		if !ok {
			return invoker
		}
		invoker = wrapper.Unwrap()
	}
}

// Unwrap returns the wrapped actor.
func (m *stopInvoker) Unwrap() actor.MessageInvoker { return m.MessageInvoker }

// InvokeSystemMessage implements actor.MessageInvoker.
func (m *stopInvoker) InvokeSystemMessage(message any) {
	switch message.(type) {
	case *actor.Stop:
		m.stopped = true
	case *actor.Restart:
		if m.stopped {
			return
		}
	}
	m.MessageInvoker.InvokeSystemMessage(message)
}

// EscalateFailure implements actor.MessageInvoker. Protoactor suspends an actor that panicked and
// asks its parent. For a stopped actor the answer would be dropped: the actor would neither run nor
// end, and keep what it holds. Instead its children are stopped, and a message that changes nothing
// makes protoactor check whether the actor can end.
func (m *stopInvoker) EscalateFailure(reason, message any) {
	ctx, ok := Unwrap(m.MessageInvoker).(actor.Context)
	if !m.stopped || !ok || m.failures == maxStopFailures {
		m.MessageInvoker.EscalateFailure(reason, message)
		return
	}
	m.failures++
	ctx.Logger().Error("actor panicked while it stopped", "actor", ctx.Self().GetId(), "panic", PanicText(reason))
	for _, child := range ctx.Children() {
		ctx.Stop(child)
	}
	m.mailbox.PostSystemMessage(&actor.Terminated{Who: ctx.Self()})
}
