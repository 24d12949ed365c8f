// Package bulk is the data plane between nodes. It carries chunks of bytes, such as KV blocks, over
// plain TCP or TLS. Chunks never pass through the actors' messages or a mailbox. One connection per
// peer and direction carries all transfers to that peer.
//
// The receiver expects a transfer and hands its ticket to the sender in a message. The ticket's
// token authorises its holder to send.
//
//	sender                                   receiver
//	  hello ─────────────────────────────────▶   magic, version
//	  ◀───────────────────────────────── hello   window in bytes; HASHED and SEALED are supported
//	  OPEN stream, transfer, token ──────────▶   a stream is one call of Send on one connection
//	  ◀──────────── OPENED chunk bytes, chunks   and whether chunks end with seals
//	  DATA stream, index, payload ═══════════▶   checks the sum and calls put; also HASHED, SEALED
//	  DATA stream, index, payload ═══════════▶
//	  ◀──────────── ACKED (stream, index) …      batched
//	  ◀────────── DAMAGED (stream, index) …      the sender repeats these
//	  ◀──────────── REFUSED stream, code, text   ends the stream
//	  CLOSE stream ──────────────────────────▶
//	  PING ──────────────────────────────────▶   while the receiver is silent
//	  ◀────────────────────────────────── PONG
//
// A frame is a header and a payload. Integers are big-endian and sums are CRC-32C. The payload sum
// of a HASHED frame is XXH3, truncated to 32 bits. A SEALED frame ends with a checksum of its
// chunk, which the receiver can verify too, and has no other payload sum. A damaged header ends the
// connection, since the next frame cannot be found. A damaged payload costs only its chunk.
//
//	0      1        4        8       12       16            20           24
//	┌──────┬────────┬────────┬────────┬────────┬─────────────┬────────────┬─────────────┐
//	│ kind │ 0 0 0  │ stream │ index  │ length │ payload sum │ header sum │ payload …   │
//	└──────┴────────┴────────┴────────┴────────┴─────────────┴────────────┴─────────────┘
//
// Invariants, checked by the tests:
//
//   - exactly once: put succeeds at most once for each index of a transfer, and Send returns nil
//     only after it did
//   - intact: put receives the bytes that read returned
//   - authorised: without the token of a transfer, no byte of a payload is kept and no memory is
//     allocated for it
//   - bounded: a connection has at most the receiver's window in flight. The sender allocates at
//     most two batches per Send, the receiver what is in flight. Memory does not grow with the
//     transfer
//   - fair: sends to one peer alternate in batches of 256 KiB, or of one chunk. A send may have an
//     eighth of the remaining free window in flight, or one chunk, so a slow sink delays only its
//     own sender
//   - resumable: after a lost connection, Send continues with the unacknowledged chunks until its
//     context ends
//   - released: when SendInPlace is done with a chunk, nothing reads its memory
//   - finite: a transfer ends by Drop, by expiry or with its plane, and put is not running when
//     Drop returns
package bulk
