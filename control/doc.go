// Package control is the operator's side of Troupe: the NATS micro service `troupe`, and the events it publishes.
//
// Every node runs the service. What is about the cluster is answered by any of them, in a queue group; what is about one
// node is answered by that node, under troupe.v1.node.<name>. A View puts the answers of all nodes together. A node that has just started answers only the latter until it
// knows what the others know: a command about the cluster goes to one of them meanwhile.
//
// The control actor owns the service for as long as it lives. Parent: node. Children: none. Requests are handled on
// goroutines of NATS and ask a Backend, which asks actors, each within a deadline. A crash loses the requests under way,
// whose callers see a time-out and ask again: all of them may be repeated.
package control
