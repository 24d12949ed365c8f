package wire

import (
	"troupe/core/batch"
	"troupe/core/replica"
	"troupe/core/session"
	"troupe/messages"
)

// Reply builds the messages of an incarnation of a replica to sessions.
type Reply struct {
	incarnation uint64
	revision    string // digest of the replica's files; empty: they have none
	fingerprint uint64 // of revision
}

// NewReply returns the Reply of an incarnation that serves files with a digest.
func NewReply(incarnation uint64, digest string) Reply {
	return Reply{incarnation, digest, session.Fingerprint(digest)}
}

// Accept converts the answer to a submission.
func (r Reply) Accept(e replica.Accept) *messages.SubmitSequenceResult {
	return &messages.SubmitSequenceResult{RequestId: e.ID, Incarnation: r.incarnation,
		Outcome: &messages.SubmitSequenceResult_Accepted{
			Accepted: &messages.SequenceAccepted{Waiting: uint32(e.Ahead), RevisionDigest: r.revision}}}
}

// Refuse converts the refusal of a submission.
func (r Reply) Refuse(e replica.Refuse) *messages.SubmitSequenceResult {
	return &messages.SubmitSequenceResult{RequestId: e.ID, Incarnation: r.incarnation,
		Outcome: &messages.SubmitSequenceResult_Refused{Refused: Refused(&e.Refusal)}}
}

// Finished repeats the end of a sequence whose output was already complete when it was submitted.
func (r Reply) Finished(e replica.Finish) *messages.TokensEmitted {
	return &messages.TokensEmitted{RequestId: e.ID, Incarnation: r.incarnation, FirstIndex: uint32(e.First),
		Revision: r.fingerprint, Finish: messages.FinishReason_FINISH_REASON_LENGTH}
}

// Repeated converts tokens that a session lacks.
func (r Reply) Repeated(e replica.Reattach, logprobs []*messages.TokenLogprobs) *messages.TokensEmitted {
	return &messages.TokensEmitted{RequestId: e.ID, Incarnation: r.incarnation, FirstIndex: uint32(e.First),
		Revision: r.fingerprint, Tokens: e.Tokens, CachedTokens: uint32(e.Cached), Logprobs: logprobs}
}

// Interrupted returns the message to a session that its sequence is no longer on the replica.
func (r Reply) Interrupted(id string, why *messages.Refused) *messages.SequenceInterrupted {
	return &messages.SequenceInterrupted{RequestId: id, Incarnation: r.incarnation, Refused: why}
}

// Emitted converts a token; lp is nil without log-probabilities. A stop token is not sent.
func (r Reply) Emitted(t batch.Emission, lp *messages.TokenLogprobs) *messages.TokensEmitted {
	msg := &messages.TokensEmitted{RequestId: t.ID, Incarnation: r.incarnation, FirstIndex: uint32(t.Index),
		Revision: r.fingerprint, Finish: finish(t.Finish), CachedTokens: uint32(t.Cached)}
	if t.Finish != batch.Stop {
		msg.Tokens = []uint32{t.Token}
		if lp != nil {
			msg.Logprobs = []*messages.TokenLogprobs{lp}
		}
	}
	return msg
}

func finish(f batch.Finish) messages.FinishReason {
	switch f {
	case batch.Stop:
		return messages.FinishReason_FINISH_REASON_STOP
	case batch.Length:
		return messages.FinishReason_FINISH_REASON_LENGTH
	}
	return messages.FinishReason_FINISH_REASON_UNSPECIFIED
}
