// Package backend carries out the requests of the control service on a node. Each kind of object
// has a type of its own, which receives only the parts of the node that it uses.
package backend
