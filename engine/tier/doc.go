// Package tier stores KV blocks below a device's memory: an Arena in host memory, and a File on a local disk. Which block is in which slot, and
// for how long, is decided by whoever owns a kv.Tier; a store is told the slot, and checks that what comes back is what it was given.
// Where a slot lies depends on the size of its block too: the first block of another size that is written to a slab makes it one for such blocks (kv.Slabs).
//
// Invariants, which the tests check:
//
//   - intact: Read gives the bytes that Write was given for that block, or ErrDamaged; whatever happened to the memory or the file
//   - by range: ViewRange gives any bytes of a block as soon as the pieces that they are in were checked, whatever the others hold
//   - lost: what the disk can not read is damaged; a file whose own name is damaged is emptied, and one that is not ours is left alone
//   - durable: a File that is opened again, also after the process was killed at any moment, holds every block whose Write had
//     returned and whose slot was not written to since, nor its slab by a block of another size. The operating system is trusted to write what it took
//   - erased: it holds no block whose Erase had returned
//   - alone: a File belongs to one process; another is refused while that one lives
//   - settled: when Write or Erase returns, nothing is writing to the slot. Read may return before, at the end of its context; what is still
//     read then goes to nobody
//
// A Rise brings blocks up to a device part by part, and lets a step that needs them follow: see engine.Gate.
//
// A slot is used by one Write or Erase at a time, and by none while it is read. Else all methods are safe for concurrent use.
package tier
