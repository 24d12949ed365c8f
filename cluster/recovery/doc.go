// Package recovery starts the NATS server of a node, after it has compared the JetStream files with the
// copy of the desired state that is kept beside them.
//
// Invariants: no other process connects to a server whose store has lost something that the copy has;
// damaged files are set aside, never overwritten; where they cannot be replaced, the server does not
// start, and the error names them.
package recovery
