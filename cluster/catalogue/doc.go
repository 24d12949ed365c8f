// Package catalogue knows which adapters there are: on every node what the store holds, kept up to date by a watch, so that a request finds its
// adapter without asking anybody.
//
// An adapter is known by the model it changes and its name; requests name it "<adapter>" where that is clear, or "<model>:<adapter>". Its
// revision is that of the store when it was registered: one that is registered again is another adapter, and the same one while it is pinned and unpinned.
//
// What replicas hold of adapters follows the catalogue: Corrections compares what one reports with what there is, and says what to tell it. It is
// compared again with every report, so that a command that is lost costs a moment.
//
// Invariants:
//
//   - nothing that the catalogue has not heard of yet is taken for deleted: a replica may know of a registration first
//   - an adapter that a caller may not use is not there for it, neither to be found nor to be in the way of another
package catalogue
