package migration

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica/wire"
	"troupe/core/batch"
	"troupe/core/migrate"
	"troupe/core/replica"
	"troupe/messages"
)

// migrateReasons maps the reasons of refusals between replicas.
var migrateReasons = map[migrate.Reason]messages.Reason{
	migrate.NotReady:      messages.Reason_REASON_NOT_READY,
	migrate.Busy:          messages.Reason_REASON_DRAINING,
	migrate.Unsupported:   messages.Reason_REASON_UNSUPPORTED,
	migrate.StaleTerm:     messages.Reason_REASON_STALE_TERM,
	migrate.Invalid:       messages.Reason_REASON_INVALID_ARGUMENT,
	migrate.QueueFull:     messages.Reason_REASON_QUEUE_FULL,
	migrate.NotFound:      messages.Reason_REASON_NOT_FOUND,
	migrate.AlreadyExists: messages.Reason_REASON_ALREADY_EXISTS,
	migrate.TooLong:       messages.Reason_REASON_TOO_LONG,
	migrate.Conflict:      messages.Reason_REASON_CONFLICT,
	migrate.WeightsDiffer: messages.Reason_REASON_WEIGHTS_DIFFER,
	migrate.NoMemory:      messages.Reason_REASON_NO_MEMORY,
}

func refusedTo(r migrate.Refusal) *messages.Refused {
	return wire.Refusal(migrateReasons[r.Reason], r.Detail, r.RetryAfter)
}

// refusalOf converts a refusal of the scheduler or of a check of an offer.
func refusalOf(r *messages.Refused) migrate.Refusal {
	for reason, wire := range migrateReasons {
		if wire == r.GetReason() {
			return migrate.Refusal{Reason: reason, Detail: r.GetDetail(), RetryAfter: r.GetRetryAfter().AsDuration()}
		}
	}
	panic(fmt.Sprintf("replica: reason %s of a refused migration", r.GetReason()))
}

func actorOf(pid *actor.PID) migrate.Actor {
	return migrate.Actor{Address: pid.GetAddress(), ID: pid.GetId()}
}

func pidTo(a migrate.Actor) *actor.PID { return actor.NewPID(a.Address, a.ID) }

func pidOf(ref *messages.ActorRef) *actor.PID { return actor.NewPID(ref.GetAddress(), ref.GetId()) }

func refOf(pid *actor.PID) *messages.ActorRef {
	return &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()}
}

// keyOf returns the attempt that a message between replicas belongs to.
func keyOf(msg interface {
	GetRequestId() string
	GetAttempt() uint64
}) migrate.Key {
	return migrate.Key{ID: msg.GetRequestId(), Attempt: msg.GetAttempt()}
}

func commandOf(msg *messages.MigrateSequences, from *actor.PID) migrate.Command {
	to := msg.GetTargetActor()
	return migrate.Command{
		RequestID: msg.GetRequestId(), From: actorOf(from), Target: msg.GetTarget(),
		To: migrate.Actor{Address: to.GetAddress(), ID: to.GetId()}, IDs: msg.GetRequestIds(), Term: msg.GetTerm(),
		Cause: msg.GetCause(),
	}
}

func commandResult(e migrate.AnswerCommand) *messages.MigrateSequencesResult {
	result := &messages.MigrateSequencesResult{RequestId: e.RequestID}
	for _, report := range e.Reports {
		result.Sequences = append(result.Sequences, reportTo(report))
	}
	return result
}

func reportTo(r migrate.Report) *messages.SequenceMigration {
	return &messages.SequenceMigration{
		RequestId: r.ID, Moved: r.Moved, Detail: r.Detail, Bytes: r.Bytes, Blocks: uint32(r.Blocks),
		ReusedBlocks: uint32(r.Reused), PauseSeconds: r.Pause.Seconds(), Seconds: r.Elapsed.Seconds(),
	}
}

func offeredOf(msg *messages.OfferSequence, from *actor.PID) migrate.OfferedSequence {
	s := msg.GetSequence()
	return migrate.OfferedSequence{
		Key: keyOf(msg), Source: actorOf(from), Tokens: int(msg.GetTokens()), Hashes: len(msg.GetHashes()),
		Shape: migrate.Shape{Model: s.GetModel(), Layout: msg.GetLayout(), BlockTokens: int(msg.GetBlockTokens()),
			BlockBytes: int(msg.GetBlockBytes())},
		Longest: len(s.GetPrompt()) + int(s.GetSampling().GetMaxTokens()),
	}
}

// own returns the state of this replica on which the target's decisions depend.
func (m *Migrations) own() migrate.Own {
	own := migrate.Own{Context: m.Machine.Context()}
	switch {
	case m.Machine.Accepting() == nil:
		own.Mode = migrate.Serving
	case m.Machine.State() >= replica.Draining && m.Machine.State() <= replica.Saved:
		own.Mode = migrate.Draining
	}
	return own
}

// describe returns the state of a sequence on which the source's decisions depend.
func (m *Migrations) describe(id string) migrate.Sequence {
	if !m.Machine.Has(id) {
		return migrate.Sequence{ID: id}
	}
	state, _ := m.Machine.Batch().State(id)
	p, _ := m.Machine.Batch().Progress(id)
	return migrate.Sequence{ID: id, Here: true, Queued: state != batch.Running, InFlight: m.Machine.InStep(id),
		Progress: p}
}

func (m *Migrations) describeAll(ids []string) []migrate.Sequence {
	all := make([]migrate.Sequence, len(ids))
	for i, id := range ids {
		all[i] = m.describe(id)
	}
	return all
}

// capacityOf returns the number of blocks that a transfer has room for.
func (m *Migrations) capacityOf(ticket *messages.BulkTicket) int {
	if m.blocks == nil {
		return 0
	}
	return int(ticket.GetBytes()) / m.blocks.BlockBytes()
}

// offerMessage returns the offer of a sequence. It limits the output, because the sequence must end
// where it would end here, even if the target has a larger context limit.
func (m *Migrations) offerMessage(e migrate.SendOffer) *messages.OfferSequence {
	c := m.Sequences[e.ID]
	sequence := proto.Clone(c.Spec).(*messages.SequenceSpec)
	most := uint32(m.Machine.Context() - len(sequence.GetPrompt()))
	sequence.Sampling.MaxTokens = min(sequence.GetSampling().GetMaxTokens(), most)
	return &messages.OfferSequence{
		RequestId: e.ID, Attempt: e.Attempt, Sequence: sequence, Session: refOf(c.Session), Tokens: uint32(e.Tokens),
		BlockTokens: m.Spec.GetBlockTokens(), BlockBytes: uint64(m.blocks.BlockBytes()), Layout: m.blocks.Layout(),
		Hashes: wire.Bytes(e.Hashes), RevisionDigest: m.Machine.Model().RevisionDigest,
	}
}

func (m *Migrations) resumeMessage(e migrate.SendResume) *messages.ResumeSequence {
	_, output, _ := m.Machine.Batch().Sequence(e.ID)
	return &messages.ResumeSequence{
		RequestId: e.ID, Attempt: e.Attempt, Output: output, Hashes: wire.Bytes(e.Hashes), Tokens: uint32(e.Tokens),
		Logprobs: slices.Clip(m.Sequences[e.ID].Logprobs),
	}
}
