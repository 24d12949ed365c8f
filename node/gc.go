package node

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much a node's heap grows between two collections, in percent of what lives. That is little: weights and KV blocks lie
// outside of the heap. With Go's own 100 a node collects that little many times a second, on the cores that requests wait for.
const gcPercent = 400

// SetGCPercent is for programs that are a node and nothing else. GOGC, where somebody has set it, counts instead.
func SetGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
