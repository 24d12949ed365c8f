package node

import (
	"os"
	"runtime/debug"
)

// gcPercent is the default of GOGC for a node. A node's heap is small, because weights and KV
// blocks are not in it. With Go's own default of 100, the heap would be collected many times a
// second, on the cores that requests need.
const gcPercent = 400

// SetGCPercent tunes the garbage collector for a program that only runs a node. It does nothing if
// GOGC is set.
func SetGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
