// Package tiering connects the machines of core/restore, core/offload, and core/export to a replica:
// messages become their events, and their effects become messages to the copier and the tiers, and
// holds of sequences and blocks.
//
// It is no actor. The replica calls it with the messages that it receives. A sequence that is about
// to be admitted is held while its first blocks are looked up and restored, if that is faster than
// recomputing them. Large blocks arrive in parts, and the sequence may start before the last part.
// Until its first step is done, the blocks belong to it alone, and a crash leaves no block that is
// incomplete but counts as valid.
package tiering
