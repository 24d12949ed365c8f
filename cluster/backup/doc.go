// Package backup keeps a copy of the desired state beside the JetStream store, and says what a store
// has lost of it.
//
// Invariants: a file that can be read is whole, by its checksum; a saved state is on the disk, under
// its name, when Save returns; a store that is newer than the copy is not damaged.
package backup
