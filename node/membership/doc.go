// Package membership tells the parts of a node which nodes are in the cluster: those that are live,
// those that an operator drains, and who holds the leases.
package membership
