// Package availability reports whether the store accepts changes, and if not, why. It judges by
// this node's connection to NATS, its embedded server and its renewals.
package availability
