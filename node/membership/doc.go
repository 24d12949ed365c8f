// Package membership informs the parts of a node about the nodes in the cluster: which ones are
// live, which ones an operator drains, and which ones hold the leases.
package membership
