// Package testkit holds helpers that tests share: golden outputs, the reference model, the wire
// copier, crash injection. Nodes do not use it.
package testkit
