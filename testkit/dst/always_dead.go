package dst

import (
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/node/query"
)

// lateAfter is the time after the end of a session within which its replica learns of it.
const lateAfter = time.Second

// deadLetters checks the node's dead letters. In a calm run, once the actors have started, the only ones allowed
// are messages to replicas that a command has stopped, messages that cross the end of a session, and notices of the
// actor system; see deadLetter.
func (n *Node) deadLetters() {
	n.system.EventStream.Subscribe(func(event any) {
		if d, ok := event.(*actor.DeadLetterEvent); ok {
			n.cfg.checks.deadLetter(d)
		}
	})
}

func (c *checks) deadLetter(d *actor.DeadLetterEvent) {
	c.posted(nodeOf(d.PID.GetAddress()), d.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := d.Message.(proto.Message)
	if !ok {
		return
	}
	c.answeredLate(d.PID, m)
	if !c.calm || !c.settled {
		return
	}
	switch m := m.(type) {
	case *actor.Terminated, *actor.Unwatch, *actor.DeadLetterResponse:
	case *messages.SequenceStatus: // the answer to a session that has got the last token meanwhile
	case *messages.CloseSession: // to a session that ended by itself at that moment
	case *messages.SequenceMoved: // likewise; it would have ended the sequence on its new replica, as the tokens do
	case *messages.SubmitSequenceResult:
		c.late(m.GetRequestId())
	case *messages.TokensEmitted:
		c.late(m.GetRequestId())
	default:
		if strings.HasPrefix(d.PID.GetId(), query.Replicas+"/") {
			return // a command has stopped it
		}
		c.failLocked("%s to %s finds no actor", nameOf(m), d.PID.GetId())
	}
}

// late notes a message of a replica to a session that has ended. There are some until the replica has
// learned of the end.
func (c *checks) late(id string) {
	if c.dead[id].IsZero() {
		c.dead[id] = time.Now()
	} else if time.Since(c.dead[id]) > lateAfter {
		c.failLocked("%s has ended, and its replica still computes it after %v", id, lateAfter)
	}
}

// setSettled records that all actors run, or that they are about to stop.
func (c *checks) setSettled(settled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = settled
}

func (c *checks) isSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}
