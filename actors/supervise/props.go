package supervise

import "github.com/asynkron/protoactor-go/actor"

// Props is actor.PropsFromProducer for actors that stay stopped; all actors of the project are made with it.
func Props(producer actor.Producer, options ...actor.PropsOption) *actor.Props {
	return actor.PropsFromProducer(producer, append([]actor.PropsOption{actor.WithMailbox(Mailbox)}, options...)...)
}

// Mailbox is protoactor's own, but what was told to stop is not restarted any more.
//
// A restart that comes after the stop, because it was under way or had to wait, would make protoactor begin another life of the actor: in place of its
// end, for which its parent then waits for ever, or after it, known to nobody and with its hands on what is another's by now.
func Mailbox() actor.Mailbox { return &mailbox{actor.Unbounded()()} }

type mailbox struct{ actor.Mailbox }

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(Mortal(invoker), dispatcher)
}

// Mortal is what Mailbox puts in front of an actor, for mailboxes that put more there. It has to see system messages only.
func Mortal(invoker actor.MessageInvoker) actor.MessageInvoker {
	return &mortal{MessageInvoker: invoker}
}

// mortal lets an actor end. It is used by one goroutine at a time.
type mortal struct {
	actor.MessageInvoker
	stopped bool
}

// InvokeSystemMessage implements actor.MessageInvoker.
func (m *mortal) InvokeSystemMessage(message any) {
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
