package dst

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"troupe/messages"
	"troupe/node/query"
)

// answerWithin is the virtual time within which a request must be answered if nothing fails. The
// longest wait is that of a LoadModel, since loads take 300 ms.
const answerWithin = 500 * time.Millisecond

// messageChecks checks the messages that actors receive.
type messageChecks struct {
	open    map[question]time.Time // requests that are not answered yet
	leaders map[termOf]string      // address of the sender of commands of a term
	latest  map[fenced]uint64      // latest term that a group of replicas has seen
	stale   map[question]string    // commands of an older term, which must be refused
	answers map[protoreflect.FullName]bool

	ids      map[string]string // kind of message by request id
	asked    map[question]bool // requests that were sent
	drained  map[string]bool   // requests that a replica refused because it drains, by id
	unsigned map[string]bool   // kinds of requests that are also sent without a sender
	copies   map[uint64]bool   // numbers of copies of blocks
	begun    map[string]string // by request that a replica has accepted: the digest of the replica's revision
}

// question is a request of an actor.
type question struct{ asker, kind, id string }

type termOf struct {
	model string
	term  uint64
}

// fenced is the group of replicas of a node, from the start of the node, and a model.
type fenced struct{ address, model string }

func newMessageChecks() messageChecks {
	return messageChecks{open: make(map[question]time.Time), leaders: make(map[termOf]string),
		latest: make(map[fenced]uint64), stale: make(map[question]string),
		answers: make(map[protoreflect.FullName]bool), ids: make(map[string]string),
		asked: make(map[question]bool), copies: make(map[uint64]bool),
		unsigned: make(map[string]bool), drained: make(map[string]bool), begun: make(map[string]string)}
}

// hasAnswer reports whether the answer to a message says which request it answers.
func (c *messageChecks) hasAnswer(m proto.Message) bool {
	name := m.ProtoReflect().Descriptor().FullName()
	has, known := c.answers[name]
	if !known {
		answer, err := protoregistry.GlobalTypes.FindMessageByName(name + "Result")
		has = err == nil && answer.Descriptor().Fields().ByName("request_id") != nil
		c.answers[name] = has
	}
	return has
}

func nameOf(m proto.Message) string { return string(m.ProtoReflect().Descriptor().Name()) }

// receives checks a message that an actor is about to handle.
func (c *checks) receives(self, sender *actor.PID, message any) {
	m, ok := message.(proto.Message)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkTerm(self, sender, m)
	c.turn(self, m)
	c.checkPlace(self, m)
	c.checkSender(self, sender, m)
	c.checkShared(m)
	if copied, ok := m.(interface{ GetCopy() uint64 }); ok {
		c.messages.copies[copied.GetCopy()] = true
	}
	id, ok := m.(interface{ GetRequestId() string })
	if !ok {
		return
	}
	name := nameOf(m)
	c.messages.ids[id.GetRequestId()] = name
	if asked, isAnswer := strings.CutSuffix(name, "Result"); isAnswer {
		if r, ok := m.(*messages.SubmitSequenceResult); ok && r.GetAccepted() != nil {
			c.messages.begun[id.GetRequestId()] = r.GetAccepted().GetRevisionDigest()
		}
		c.answered(question{self.String(), asked, id.GetRequestId()}, m)
		return
	}
	if sender == nil || isFuture(sender) {
		c.messages.unsigned[name] = true
		return
	}
	if c.messages.hasAnswer(m) {
		q := question{sender.String(), name, id.GetRequestId()}
		if c.messages.asked[q] && c.light && !c.messages.drained[q.id] {
			c.failLocked("%s of %s was sent again without a fault: %s", name, q.asker, q.id)
		}
		c.messages.asked[q] = true
		c.messages.open[question{sender.String(), name, id.GetRequestId()}] = time.Now()
	}
}

// checkSender checks that an answer to a session says who sent it: the session may have another replica by
// then. The caller must hold c.mu.
func (c *checks) checkSender(self, sender *actor.PID, m proto.Message) {
	switch m.(type) {
	case *messages.SubmitSequenceResult, *messages.SequenceStatus:
		if sender == nil {
			c.failLocked("%s received %s without a sender", self, nameOf(m))
		}
	}
}

// answered records an answer. The caller must hold c.mu.
func (c *checks) answered(q question, m proto.Message) {
	if c.messages.open[q].IsZero() && !c.messages.unsigned[q.kind] && c.quiet {
		c.failLocked("%s of %s was answered again, or was not sent: %s", q.kind, q.asker, q.id)
	}
	if asked := c.messages.open[q]; c.quiet && !asked.IsZero() && time.Since(asked) > answerWithin {
		c.failLocked("%s of %s was answered after %v: %s", q.kind, q.asker, time.Since(asked), q.id)
	}
	delete(c.messages.open, q)
	if r, ok := m.(*messages.SubmitSequenceResult); ok &&
		r.GetRefused().GetReason() == messages.Reason_REASON_DRAINING {
		c.messages.drained[q.id] = true
	}
	why, stale := c.messages.stale[q]
	if r, ok := m.(interface{ GetRefused() *messages.Refused }); stale && ok && r.GetRefused() == nil {
		c.failLocked("%s was accepted, though %s", q.kind, why)
	}
	delete(c.messages.stale, q)
}

// answeredLate records an answer to a request whose sender has ended meanwhile. The caller must hold c.mu.
func (c *checks) answeredLate(self *actor.PID, m proto.Message) {
	id, ok := m.(interface{ GetRequestId() string })
	if !ok {
		return
	}
	if kind, isAnswer := strings.CutSuffix(nameOf(m), "Result"); isAnswer {
		delete(c.messages.open, question{self.String(), kind, id.GetRequestId()})
	}
}

// checkUnanswered checks that requests were answered in time. A fault or a command may end what asks
// or answers.
func (c *checks) checkUnanswered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.quiet {
		return
	}
	for _, q := range sortedQuestions(c.messages.open) {
		if q.kind == "OfferSequence" || !c.light && strings.Contains(q.asker, "/session-") {
			continue // an offer may be abandoned; a session may end while it waits
		}
		if waits := time.Since(c.messages.open[q]); waits > answerWithin {
			c.failLocked("%s of %s has no answer: %s", q.kind, q.asker, q.id)
		}
	}
}

// checkTerm checks that one member commands in a term, and notes commands of an older one. The
// caller must hold c.mu.
func (c *checks) checkTerm(self, sender *actor.PID, m proto.Message) {
	t, ok := m.(interface{ GetTerm() uint64 })
	if !ok || t.GetTerm() == 0 || sender == nil || self.GetId() != query.Replicas {
		return // groups of replicas pass commands on
	}
	var model string
	switch m := m.(type) {
	case *messages.StartReplica:
		model = m.GetReplica().GetModel()
	case interface{ GetModel() string }:
		model = m.GetModel()
	default:
		return
	}
	of := termOf{model, t.GetTerm()}
	if other := c.messages.leaders[of]; other != "" && other != sender.GetAddress() {
		c.failLocked("%s and %s command %s in term %d", other, sender.GetAddress(), model, of.term)
	}
	c.messages.leaders[of] = sender.GetAddress()
	group := fenced{self.GetAddress(), model}
	if id, ok := m.(interface{ GetRequestId() string }); ok {
		q := question{sender.String(), nameOf(m), id.GetRequestId()}
		delete(c.messages.stale, q) // the answer to an earlier one of that id was lost
		if latest := c.messages.latest[group]; of.term < latest {
			c.messages.stale[q] = fmt.Sprintf("its term %d of %s is older than %d", of.term, model, latest)
		}
	}
	c.messages.latest[group] = max(c.messages.latest[group], of.term)
}
