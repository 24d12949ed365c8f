// Package control is the operator's side of a node: the NATS micro service `troupe`, and the events it publishes.
//
// The control actor owns the service for as long as it lives. Parent: node. Children: none. Requests are handled on
// goroutines of NATS and ask a Backend, which asks actors, each within a deadline. A crash loses the requests under way,
// whose callers see a time-out and ask again: all of them may be repeated.
package control
