// Package migration connects the machines of core/migrate to a replica. It converts messages to
// events, and carries out effects: it sends messages, holds sequences, and transfers blocks.
//
// It is not an actor: the replica calls it with the messages that it receives. An outgoing sequence
// belongs to the source until ResumeSequenceResult, and continues there after any failure. It keeps
// decoding while its full blocks are sent, and is paused only for the last blocks. A crash of
// either replica loses the migration, but not the sequence: its session submits it again.
package migration
