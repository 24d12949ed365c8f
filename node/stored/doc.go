// Package stored keeps what a node knows of the state in the store: the cluster secret, the pinned
// prefixes, the nodes that an operator drains, and the adapters. Each is followed in the background
// from Follow on.
//
//   - A part that is followed is complete when Follow returns, and then follows each change.
//   - If the store is lost, what is known stays, and the watch is opened again.
package stored
