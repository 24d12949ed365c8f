package dst

import (
	"maps"
	"reflect"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// A timer or a job may report at any time after its actor has crashed, and a command may wait in a mailbox
// meanwhile. So that finding a fault does not depend on chance, each restarted actor receives again what its
// previous incarnation received, and must ignore it.

// late is what an actor has received from its own incarnation, or for it.
type late struct {
	last map[string]*actor.MessageEnvelope // by type
	left int                               // number of messages before which it is repeated
}

// lateMessages is the number of messages of an incarnation after which what is late is repeated.
const lateMessages = 6

// addressee returns the incarnation that a note is from, or that a command is for. The incarnation in
// other messages is that of their sender.
func addressee(message any) (uint64, bool) {
	switch m := message.(type) {
	case *messages.AdoptPins, *messages.CopyBlocksDown, *messages.CopyFoundBlocks, *messages.LookUpBlocks,
		*messages.ReleaseFoundBlocks, *messages.RunStep:
		return m.(interface{ GetIncarnation() uint64 }).GetIncarnation(), true
	}
	return incarnationOf(message)
}

// keepLate keeps what an actor receives from its own incarnation, or for it.
func (n *Node) keepLate(a actor.Actor, id string, env *actor.MessageEnvelope) {
	of, known := addressee(env.Message)
	if !known {
		return
	}
	if own, has := incarnationOf(a); !has || of != own {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.late[id] == nil {
		n.late[id] = &late{last: make(map[string]*actor.MessageEnvelope)}
	}
	n.late[id].last[reflect.TypeOf(env.Message).String()] = env
}

// repeatLate lets an actor that has restarted handle what was from or for earlier incarnations, before each
// of its first messages. Nothing else runs at the beginning of a task, so what is sent or started then is
// sent or started by the actor.
func (n *Node) repeatLate(ctx actor.ReceiverContext, message any, next actor.ReceiverFunc) {
	late := n.takeLate(ctx.Self().GetId(), message)
	if len(late) == 0 {
		return
	}
	own, _ := incarnationOf(ctx.Actor())
	for _, env := range late {
		if of, _ := addressee(env.Message); of != own {
			n.checkIgnored(ctx.Actor(), ctx.Self(), env.Message, func() { next(ctx, env) })
		}
	}
}

// takeLate returns what is repeated before a message.
func (n *Node) takeLate(id string, message any) (all []*actor.MessageEnvelope) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.late[id]
	if l == nil {
		return nil
	}
	switch message.(type) {
	case *actor.Restarting, *actor.Stopping, *actor.Stopped:
		l.left = 0
	case *actor.Started:
		l.left = lateMessages
		return nil
	}
	if l.left == 0 {
		return nil
	}
	l.left--
	for _, t := range slices.Sorted(maps.Keys(l.last)) {
		all = append(all, l.last[t])
	}
	return all
}
