// Package kvstore stores KV blocks below a device's memory: an Arena in host memory, and a File on a
// local disk. The owner of a kv.Tier decides which block is in which slot, and for how long. A
// store is given the slot and verifies that a read returns what was written. The location of a slot
// also depends on the size of its block: the first block of another size that is written to a slab
// makes it a slab for that size (kv.Slabs).
//
// Invariants, checked by the tests:
//
//   - intact: Read returns the bytes that Write stored for the block, or ErrDamaged, whatever
//     happened to the memory or the file
//   - by range: ViewRange returns any bytes of a block once their pieces are verified, regardless
//     of the other pieces
//   - unreadable: sectors that the disk cannot read count as damaged. A file with a damaged name is
//     emptied, and a foreign file is left alone
//   - durable: after reopening, even if the process was killed, a File holds every block whose
//     Write had returned, unless its slot was written again or its slab changed to another block
//     size. The operating system must keep what it accepted
//   - erased: a store holds no block whose Erase had returned
//   - exclusive: a File belongs to one process; others are rejected while it lives
//   - settled: when Write or Erase returns, nothing writes to the slot. Read may return early when
//     its context ends; the rest of the read is discarded
//
// A LayerRestore copies blocks to a device part by part, and lets a step that needs them run
// concurrently: see engine.Gate.
//
// A slot is used by one Write or Erase at a time, and by none while it is read. Otherwise all
// methods are safe for concurrent use.
package kvstore
