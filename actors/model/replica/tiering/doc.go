// Package tiering connects the machines of core/restore, core/offload, and core/export to a
// replica. It converts messages to events, and carries out effects: it sends messages to the copier
// and the tiers, and holds sequences and blocks.
//
// It is not an actor: the replica calls it with the messages that it receives. A sequence that is
// about to be admitted is held while its first blocks are looked up and restored, if that is faster
// than recomputing them. Large blocks arrive in parts, and the sequence may start before the last
// part. Until its first step is done, no other sequence uses these blocks, and after a crash no
// incomplete block counts as valid.
package tiering
