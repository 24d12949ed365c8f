package supervise

import "github.com/asynkron/protoactor-go/actor"

// Props is actor.PropsFromProducer with Mailbox, for actors that are never restarted after a stop.
// All actors of the project use it.
func Props(producer actor.Producer, options ...actor.PropsOption) *actor.Props {
	return actor.PropsFromProducer(producer, append([]actor.PropsOption{actor.WithMailbox(Mailbox)}, options...)...)
}

// Mailbox returns protoactor's unbounded mailbox, except that a stopped actor is not restarted.
//
// Protoactor itself would start another incarnation for a restart that arrives after the stop,
// because it was in progress or delayed. That incarnation would replace the actor's end, for which
// the parent then waits forever. Or it would run after the end, unknown to its parent, on resources
// that belong to another actor by then.
func Mailbox() actor.Mailbox { return &mailbox{actor.Unbounded()()} }

type mailbox struct{ actor.Mailbox }

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
	m.Mailbox.RegisterHandlers(NoRestartAfterStop(invoker), dispatcher)
}

// NoRestartAfterStop wraps an actor as Mailbox does, for mailboxes with further wrappers. It needs
// to see only system messages.
func NoRestartAfterStop(invoker actor.MessageInvoker) actor.MessageInvoker {
	return &noRestartInvoker{MessageInvoker: invoker}
}

// noRestartInvoker drops restarts after a stop. It is used by one goroutine at a time.
type noRestartInvoker struct {
	actor.MessageInvoker
	stopped bool
}

// Unwrap returns the wrapped actor.
func (m *noRestartInvoker) Unwrap() actor.MessageInvoker { return m.MessageInvoker }

// InvokeSystemMessage implements actor.MessageInvoker.
func (m *noRestartInvoker) InvokeSystemMessage(message any) {
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
