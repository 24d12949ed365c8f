// Package kv tracks which KV block of a replica holds which content, and how many sequences read
// it.
//
// A block is identified by the hash of everything its content depends on: the model, the adapter,
// the tenant's salt, and all tokens from the start of the sequence to the end of the block.
// Sequences of one tenant with a common prefix therefore share blocks, by reference count. Blocks
// with no readers stay cached until their space is needed; the least recently used one is evicted
// first.
//
// Invariants of a Pool, checked by the property test:
//
//   - conservation: every block is in exactly one state: empty, cached or referenced
//   - unique: at most one block holds a given hash
//   - pinned: a block that is referenced, or is being copied to a lower tier, is never allocated
//     again
//   - draining: a block beyond the size of a shrunk pool is never allocated, and disappears with
//     its last reader
//   - lru: of the cached blocks, the one released longest ago is evicted first
//
// A Tier tracks the blocks of one lower tier, DRAM or NVMe. Its blocks are Absent, Arriving,
// Resident or Leaving. A Policy, a watermark and the number of idle steps select the blocks that
// leave. RestoreCost decides whether restoring blocks is faster than recomputing them. Invariants
// of a Tier, checked by the property test under every policy:
//
//   - read: a copy out of a slot begins only while its block is Resident
//   - reuse: a slot is reused only when its block is Absent and every copy out of it has ended
//   - lost: a block stops being Resident only by a returned decision: a drop or a demotion
//   - pinned: a pinned block is never dropped to make room, and leaves after all unpinned blocks of
//     its size
//   - conservation: every slot is in exactly one state: free, arriving, resident, leaving or still
//     being copied
//   - apart: the slots of present or copied blocks do not overlap, and lie within the tier's
//     capacity
//   - still: a block stays in one slot; a slab is not assigned to another size while one of its
//     blocks is arriving, being copied or pinned
//   - cascade: while the tier below accepts blocks, none is dropped for a block of another size
//   - reassigned: no slot of a slab that is being reassigned is handed out; the slab changes its
//     size once its blocks have left and all copies have ended
//   - reported: a caller that applied all Changes knows which block each slot holds
//
// A BurstEstimator lowers the watermark of a Pool when more blocks are allocated at once than the
// watermark leaves free.
//
// LinkStats are the measurements of the network path to another node that holds blocks. RestoreCost
// treats that path like a tier.
//
// Contents is what the blocks of each lease hold, as the HBM tier of a device knows it.
//
// An Announcer tells routers which blocks a pool holds, by the first 8 bytes of each hash. Routers
// cannot distinguish two blocks with the same 8 bytes; at worst they make a poor routing decision.
package kv
