// Package session is the actor of one sequence that a client asked for.
//
// Parent: the gateway actor. Children: none.
// Speaks with: the router of its node (RouteSequence, SequenceMoved), then a replica (SubmitSequence, GetSequence, CancelSequence).
// Accepts: TokensEmitted, SequenceInterrupted, SequenceMoved, CloseSession, and the answers to what it asked.
//
// It owns what happens between a client and the replicas: tokens arrive by index, repeats are dropped, and when the
// replica is lost the session submits prompt and output so far to the next one. Sampling is a function of seed and
// position, so the client sees one stream without a gap or a doubled token.
//
// State: the sequence is desired, given in Config. What the client has seen is observed: the Client, which is the
// call that the gateway holds open, outlives the session and knows. Which replica serves is in flight. A crash
// thus loses nothing; the gateway actor brings a session back.
package session
