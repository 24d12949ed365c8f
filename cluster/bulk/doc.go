// Package bulk is the data plane between nodes: it carries chunks of bytes, such as KV blocks, over plain TCP or TLS, beside the
// actors' messages and never through a mailbox. One connection per peer and direction carries all transfers to that peer.
//
// The receiver expects a transfer and hands its ticket to the sender in a message; whoever has the ticket's token may send.
//
//	sender                                   receiver
//	  hello ─────────────────────────────────▶   magic, version
//	  ◀───────────────────────────────── hello   and the window in bytes, and that it takes HASHED and SEALED
//	  OPEN stream, transfer, token ──────────▶   a stream is one call of Send on one connection
//	  ◀──────────── OPENED chunk bytes, chunks   and whether chunks end with seals
//	  DATA stream, index, payload ═══════════▶   checks the sum, calls put; HASHED and SEALED likewise
//	  DATA stream, index, payload ═══════════▶
//	  ◀──────────── ACKED (stream, index) …      as many as have come together
//	  ◀────────── DAMAGED (stream, index) …      these are sent again
//	  ◀──────────── REFUSED stream, code, text   the end of the stream
//	  CLOSE stream ──────────────────────────▶
//	  PING ──────────────────────────────────▶   while the receiver is silent
//	  ◀────────────────────────────────── PONG
//
// A frame is a header and a payload; integers are big-endian, sums are CRC-32C. In a HASHED frame that of the payload is XXH3, cut to
// 32 bits; a SEALED one ends with a checksum of the chunk's own, which the receiver can take too, and has no other. A damaged header
// ends the connection, since nothing behind it can be found; a damaged payload only costs that chunk.
//
//	0      1        4        8       12       16            20           24
//	┌──────┬────────┬────────┬────────┬────────┬─────────────┬────────────┬─────────────┐
//	│ kind │ 0 0 0  │ stream │ index  │ length │ payload sum │ header sum │ payload …   │
//	└──────┴────────┴────────┴────────┴────────┴─────────────┴────────────┴─────────────┘
//
// Invariants, which the tests check:
//
//   - exactly once: put sees each index of a transfer at most once with success, and Send returns nil only after it did
//   - intact: put sees the bytes that read gave
//   - authorised: without the token of a transfer, no byte of a payload is kept, and no memory is taken for it
//   - bounded: a connection has at most the receiver's window in flight, and each side no more memory than that: the sender two
//     turns per Send, the receiver what is in flight. Nothing grows with the transfer
//   - fair: sends to one peer take turns of 256 KiB, or one chunk, and one may have no more in flight than an eighth of what it leaves
//     free of the window, or one chunk; so a sink that is slow holds up itself
//   - resumable: after a lost connection a Send goes on with what was not acknowledged, for as long as its context lasts
//   - let go: when SendInPlace is done with a chunk, nothing reads that memory
//   - finite: a transfer ends by Drop, by expiry or with its plane, and put is not running when Drop returns
package bulk
