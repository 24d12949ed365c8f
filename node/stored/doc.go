// Package stored holds a node's view of the state in the store: the cluster secret, the pinned
// prefixes, the nodes that an operator drains, and the adapters. From Follow on, each part is
// followed in the background.
//
//   - When Follow returns, a part is complete. From then on it is updated with each change.
//   - If the store is lost, the view is kept, and the watch is opened again.
package stored
