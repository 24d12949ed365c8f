// Package recovery starts the NATS server of a node after it has compared the JetStream files with
// the copy of the desired state.
//
// Invariants: no other process connects to a server whose store has lost entries that the copy has.
// Damaged files are set aside and never overwritten. If they cannot be replaced, the server does
// not start, and the error names them.
package recovery
