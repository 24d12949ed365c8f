// Package session provides the actor of one sequence that a client requested.
//
// Parent: the gateway actor. Children: none. Speaks with: the router of its node (RouteSequence,
// SequenceMoved), then a replica (SubmitSequence, GetSequence, CancelSequence). Accepts:
// RouteSequenceResult, SubmitSequenceResult, SequenceStatus, TokensEmitted, SequenceInterrupted,
// SequenceMoved, CloseSession.
//
// It connects a client to the replicas. The Machine of core/session decides what happens; this
// package translates messages into its events and carries out its effects. When the replica is
// lost, the session submits the prompt and the output so far to another one. Sampling is a function
// of seed and position, so the client sees one stream without gaps or repeated tokens.
//
// State: the sequence is desired; Config contains it. The delivered output and the digest of the
// files that computed it are observed: the Client and Props, which outlive the session, keep them.
// The replica that serves is in flight. A crash therefore loses nothing; the gateway actor restarts
// the session. A session whose client has left cancels the sequence before it stops or restarts, and
// does not start again.
package session
