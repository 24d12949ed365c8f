// Package link lets actors of different nodes reach each other. It speaks the protocol of protoactor's remote, over gRPC, and sees
// to it that whoever waits hears of a loss at once. Of remote only the protocol is used: its writer loses what it has when its
// endpoint ends.
//
// What happens to a message, and where:
//
//   - One to an address where no member lives is answered with actor.DeadLetterResponse, and actor.Watch with actor.Terminated, at
//     once; so is one that can not be marshalled (guard).
//   - A member that leaves takes requests with it: the futures that wait for it fail with actor.ErrDeadLetter (pending), and those
//     who watch there are told (watches).
//   - Each address has one connection that takes letters. It takes a letter, or says that it is closed, and the next one is asked;
//     what it took it writes, or answers where it could not be opened or broke before (endpoints, outbox, outbound).
//   - A peer that stops without a word is asked three times a second whether it lives (outbound), and gRPC's keepalive watches the
//     other direction (listen).
//   - An answer lost on its way back is nobody's concern: whoever is asked whether it lives also says how many of its
//     streams to the asker have broken (losses).
//   - Only what nodes say to each other is read. An unknown type, an index out of range, a malformed payload and the messages by
//     which protoactor's own actors are stopped are refused (inbound, decode).
//
// Invariants:
//
//   - A future that waits for an answer from an address gets the answer, or a dead letter when that address leaves or a
//     connection to or from it breaks, at the latest when the other side notices that and is asked next. A dead letter does
//     not say that the request had no effect: repeat it under the same request_id.
//   - A watch is answered once: by the actor's death, or by the loss of its address.
//   - A message with a sender that was not written is answered with a dead letter, once. One that was may be lost with its
//     connection: who is no future learns that from actor.Terminated.
//   - What a peer sends can be refused; it can not end the stream, and no more the process.
//   - Messages from one actor to another arrive in the order in which they were sent, as long as the connection holds.
//
// Of protoactor's cluster the member list and the identity lookup are used. Its gossip and its pub-sub are not started, and
// it has no kinds: membership is the provider's word, and SetMembers passes it on to the guard.
package link
