// Package link connects the actor systems of different nodes. It speaks the gRPC protocol of
// protoactor's remote package and makes sure that senders learn of lost messages at once. It
// replaces remote's own endpoints, since their writer loses its queue when an endpoint ends.
//
// What happens to a message, and where:
//
//   - A message to an address without a member is answered at once with actor.DeadLetterResponse,
//     and actor.Watch with actor.Terminated. The same holds for a message that cannot be marshalled
//     (guard).
//   - When a member leaves, futures that wait for it fail with actor.ErrDeadLetter (pending), and
//     watchers of its actors receive actor.Terminated (watches).
//   - Each address has at most one connection that accepts envelopes. A closed connection rejects
//     the envelope, and a new connection is opened. An accepted envelope is either written or, if
//     the connection could not be opened or broke before, answered with a dead letter (endpoints,
//     outbox, outbound).
//   - A peer is pinged about three times a second, so that a silent one is noticed (outbound).
//     gRPC's keepalive covers the other direction (listen).
//   - A reply can be lost on a connection of the replying node only. A node therefore answers
//     each ping with the number of its streams to the pinging node that have broken
//     (brokenStreams).
//   - A node accepts only the messages that nodes exchange. It refuses unknown types, indices out
//     of range, malformed payloads and the messages that stop protoactor's own actors (inbound,
//     decode).
//
// Invariants:
//
//   - A future that waits for an address receives the answer or a dead letter. The dead letter
//     comes when the address leaves or when a connection to or from it breaks, at the latest with
//     the ping after the other node has noticed. A dead letter does not mean that the request had
//     no effect: repeat it with the same request_id.
//   - A watch is answered once: when the actor dies or when its address is lost.
//   - A message with a sender that was not written is answered with one dead letter. A message
//     that was written may be lost with its connection. A sender that is not a future learns of
//     that from actor.Terminated.
//   - A message from a peer can be refused, but it cannot end the stream or the process.
//   - Messages from one actor to another arrive in the order sent, as long as the connection holds.
//
// Of protoactor's cluster package only the member list and the identity lookup are used. Gossip and
// pub-sub are not started, and there are no kinds. The provider decides membership, and SetMembers
// passes it to the guard.
package link
