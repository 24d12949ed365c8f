// Package control is the operator interface of Troupe: the NATS micro service `troupe` and the
// events that it publishes.
//
// Every node runs the service. Requests about the cluster go to a queue group, so any node answers
// them. Requests about one node go to that node, at troupe.v1.node.<name>. A View combines the
// answers of all nodes. A node that has just started answers only requests about itself until it
// has learned the state of the cluster; meanwhile the other nodes answer requests about the cluster.
//
// The control actor owns the service. Its parent is node, and it has no children. The service
// handles requests on goroutines, which ask a Backend, which asks actors; each request has a
// deadline. After a crash the requests in flight are lost and their clients time out. They may
// send the requests again: all of them can be repeated safely.
package control
