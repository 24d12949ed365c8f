// Package backend carries out the requests of the control service on a node. Each kind of object has
// a type of its own, which gets the parts that it uses and nothing else.
package backend
