// Package bus connects a node to NATS: to configured servers, or to an embedded one that it runs. It
// guards the replies to requests over NATS.
package bus
