package wire

import (
	"troupe/core/batch"
	"troupe/core/replica"
	"troupe/messages"
)

// Incarnation is the incarnation of a replica. Its methods build messages to sessions.
type Incarnation uint64

// Accept converts the answer to a submission. revision is the digest of the replica's files.
func (i Incarnation) Accept(e replica.Accept, revision string) *messages.SubmitSequenceResult {
	return &messages.SubmitSequenceResult{RequestId: e.ID, Incarnation: uint64(i),
		Outcome: &messages.SubmitSequenceResult_Accepted{
			Accepted: &messages.SequenceAccepted{Waiting: uint32(e.Ahead), RevisionDigest: revision}}}
}

// Refuse converts the refusal of a submission.
func (i Incarnation) Refuse(e replica.Refuse) *messages.SubmitSequenceResult {
	return &messages.SubmitSequenceResult{RequestId: e.ID, Incarnation: uint64(i),
		Outcome: &messages.SubmitSequenceResult_Refused{Refused: Refused(&e.Refusal)}}
}

// Finished repeats the end of a sequence whose output was already complete when it was submitted.
func (i Incarnation) Finished(e replica.Finish) *messages.TokensEmitted {
	return &messages.TokensEmitted{RequestId: e.ID, Incarnation: uint64(i), FirstIndex: uint32(e.First),
		Finish: messages.FinishReason_FINISH_REASON_LENGTH}
}

// Repeated converts tokens that a session lacks.
func (i Incarnation) Repeated(e replica.Reattach, logprobs []*messages.TokenLogprobs) *messages.TokensEmitted {
	return &messages.TokensEmitted{RequestId: e.ID, Incarnation: uint64(i), FirstIndex: uint32(e.First),
		Tokens: e.Tokens, CachedTokens: uint32(e.Cached), Logprobs: logprobs}
}

// Interrupted returns the message to a session that its sequence is no longer on the replica.
func (i Incarnation) Interrupted(id string, why *messages.Refused) *messages.SequenceInterrupted {
	return &messages.SequenceInterrupted{RequestId: id, Incarnation: uint64(i), Refused: why}
}

// Emitted converts a token; lp is nil without log-probabilities. A stop token is not sent.
func (i Incarnation) Emitted(t batch.Emission, lp *messages.TokenLogprobs) *messages.TokensEmitted {
	msg := &messages.TokensEmitted{RequestId: t.ID, Incarnation: uint64(i), FirstIndex: uint32(t.Index),
		Finish: finish(t.Finish), CachedTokens: uint32(t.Cached)}
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
