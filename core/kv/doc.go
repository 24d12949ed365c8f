// Package kv knows which KV block of a replica holds what, and who reads it.
//
// A block is known by the hash of everything that its content depends on: model, adapter, and all tokens from the
// sequence's start to the block's end. Sequences with a common prefix thus share blocks, by reference count. Blocks
// that nobody reads stay cached until one is needed; then the least recently used goes first.
//
// Invariants, checked by the property test:
//
//   - conservation: every block is empty, cached or referenced, and exactly one of them
//   - unique: at most one block holds a hash
//   - pinned: a referenced block is never given to anybody else
//   - leaving: a block beyond the size to which the pool was shrunk is given to nobody, and gone once nobody reads it
//   - lru: of the cached blocks the one released longest ago is evicted first
//
// An Announcer tells routers which blocks a pool holds, by the first 8 bytes of each hash. Two blocks that share them are one
// to a router, which at worst guesses wrong.
package kv
