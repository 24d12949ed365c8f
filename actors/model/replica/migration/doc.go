// Package migration connects the machines of core/migrate to a replica: messages become their
// events, and their effects become messages, holds of sequences, and transfers of blocks.
//
// It is no actor. The replica calls it with the messages that it receives. An outgoing sequence
// belongs to the source until ResumeSequenceResult, and continues there after any failure. It keeps
// decoding while its full blocks are sent, and is paused only for the last blocks. A crash of either
// replica loses the migration, but not the sequence: its session submits it again.
package migration
