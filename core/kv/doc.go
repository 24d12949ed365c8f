// Package kv knows which KV block of a replica holds what, and who reads it.
//
// A block is known by the hash of everything that its content depends on: model, adapter, and all tokens from the
// sequence's start to the block's end, and of the salt of its tenant. Sequences of one tenant with a common prefix
// thus share blocks, by reference count. Blocks
// that nobody reads stay cached until one is needed; then the least recently used goes first.
//
// Invariants, checked by the property test:
//
//   - conservation: every block is empty, cached or referenced, and exactly one of them
//   - unique: at most one block holds a hash
//   - pinned: a block that is referenced, or is being copied down a tier, is never given to anybody else
//   - leaving: a block beyond the size to which the pool was shrunk is given to nobody, and gone once nobody reads it
//   - lru: of the cached blocks the one released longest ago is evicted first
//
// A Tier keeps account of a place below: DRAM, NVMe. Its blocks are Absent, Arriving, Resident or Leaving; which leave is decided by a
// Policy, a watermark and idle steps, and RestoreQuestion decides whether it pays to bring blocks back. Invariants of a Tier, checked
// by the property test under every policy:
//
//   - read: a copy out of a slot begins only where its block is Resident
//   - reuse: a slot is given out again only when its block is Absent and every copy out of it has ended
//   - lost: a block goes from Resident only by a decision that is returned: dropped, or left
//   - pinned: a pinned block is not dropped to make room, and leaves only after those of its size that are not
//   - conservation: every slot is free, arriving, resident, leaving or still being copied, and exactly one of them
//   - apart: the slots of blocks that are here, or being copied, do not overlap, and lie within the tier's capacity
//   - still: a block stays in one slot; a slab with one that is arriving, being copied or pinned is not given to another size
//   - cascade: where the tier below takes blocks, none is dropped for one of another size
//   - vacated: of a slab that is being vacated no slot is given out; it is the other size's once its blocks have left and the copies have ended
//   - told: who applied all Changes knows which block each slot holds
//
// Needs lowers the watermark of a Pool where more places are taken at once than there are above it.
//
// A Link is the measured way to a holder of blocks on another node, which RestoreQuestion takes for one more way up.
//
// An Announcer tells routers which blocks a pool holds, by the first 8 bytes of each hash. Two blocks that share them are one
// to a router, which at worst guesses wrong.
package kv
