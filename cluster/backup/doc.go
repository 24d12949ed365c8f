// Package backup keeps a copy of the desired state beside the JetStream store, and finds what a
// store has lost of it.
//
// Invariants: a file with a valid checksum is complete. A saved state is synced to disk under its
// name when Save returns. A store that is newer than the copy is not damaged.
package backup
