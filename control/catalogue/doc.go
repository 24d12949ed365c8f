// Package catalogue keeps a copy of the stored adapters on every node. A watch of the store updates
// it, so that a request finds its adapter locally.
//
// An adapter is identified by its model and its name. Requests name it "<adapter>" if that is
// unique, or "<model>:<adapter>". Its revision is that of the store when it was registered.
// Registering it again makes a new revision, while pinning and unpinning do not.
//
// Replicas follow the catalogue: Reconcile compares a replica's report with the catalogue and
// returns the commands to send. Every report is compared, so a lost command only costs a delay.
//
// Invariants:
//
//   - An adapter that the catalogue has not seen yet never counts as deleted: a replica may learn
//     of a registration first.
//   - An adapter that a caller may not use is invisible to it: it is neither found nor does it make
//     a name ambiguous.
package catalogue
