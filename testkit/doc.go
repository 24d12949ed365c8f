// Package testkit is what tests share: goldens, the reference model, the wire copier, crash injection. Nothing of it is in a node.
package testkit
