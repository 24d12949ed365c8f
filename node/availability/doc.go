// Package availability says whether the store takes changes, and why not: from this node's
// connection to NATS, its embedded server and its renewals.
package availability
