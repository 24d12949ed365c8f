// Package link lets actors of different nodes reach each other: protoactor's remote carries the messages, over gRPC, and a
// guard around it sees to it that whoever waits hears of a loss at once.
//
// What remote alone would do, and what happens here instead:
//
//   - A message to an address where no member lives waits for a connection: it is answered with actor.DeadLetterResponse,
//     and actor.Watch with actor.Terminated, at once (guard).
//   - A member that leaves takes requests with it: the futures that wait for it fail with actor.ErrDeadLetter (pending).
//   - A failed connection attempt sleeps for two seconds and loses what was queued: the stream that remote writes to never
//     fails, it answers what it can not deliver, and then ends (outbound).
//   - A peer that stops without a word goes unnoticed: it is asked three times a second whether it lives (outbound), and
//     gRPC's keepalive watches the other direction (inbound).
//   - An answer lost on its way back is nobody's concern: whoever is asked whether it lives also says how many of its
//     streams to the asker have broken (losses).
//   - An unknown type, an index out of range or a malformed payload ends the stream or the process, and every protobuf type
//     that is linked in is taken, actor.Stop too: only what nodes say to each other is read, the rest is refused (inbound).
//
// Invariants:
//
//   - A future that waits for an answer from an address gets the answer, or a dead letter when that address leaves or a
//     connection to or from it breaks, at the latest when the other side notices that and is asked next. A dead letter does
//     not say that the request had no effect: repeat it under the same request_id.
//   - A message with a sender that never got onto a connection is answered with a dead letter. One that did may be lost with
//     the connection: who is no future learns that from actor.Terminated.
//   - What a peer sends can be refused; it can not end the stream, and no more the process.
//   - Messages from one actor to another arrive in the order in which they were sent, as long as the connection holds.
//
// Of protoactor's cluster the member list and the identity lookup are used. Its gossip and its pub-sub are not started, and
// it has no kinds: membership is the provider's word, and SetMembers passes it on to the guard.
package link
