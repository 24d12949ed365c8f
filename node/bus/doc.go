// Package bus connects a node to NATS, either to configured servers or to an embedded server that
// the node runs. It guards the replies to requests over NATS.
package bus
