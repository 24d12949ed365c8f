package dst

import (
	"math/rand/v2"
	"time"
)

// Faults of the sources of weights.
const (
	LoseFolder FaultKind = "lose-folder" // Node cannot read the folder of Model for For
	FailReads  FaultKind = "fail-reads"  // the next Count parts that are read from weights on Node's devices fail
	HangRead   FaultKind = "hang-read"   // the next part that is read there within For takes For longer
	LoseSecond FaultKind = "lose-second" // Node's second device does not answer for For
)

// drawSources fills in a fault of a source.
func (f *Fault) drawSources(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case LoseFolder:
		f.Model, f.For = models[rng.IntN(len(models))].name, span(time.Second, 15*time.Second)
	case FailReads:
		f.Count = 1 + rng.IntN(3)
	case HangRead:
		f.For = span(100*time.Millisecond, 10*time.Second)
	case LoseSecond:
		f.For = span(2*time.Second, 20*time.Second)
	}
}

// injectSources injects a fault of a source.
func (c *cluster) injectSources(n *Node, f Fault, later func(func())) {
	e := n.faults
	switch f.Kind {
	case LoseFolder:
		path := c.path(f.Model)
		e.change(func() { e.folders[path]++ })
		later(func() { e.change(func() { e.folders[path]-- }) })
	case FailReads:
		e.change(func() { e.failReads += f.Count })
	case HangRead:
		later(e.hangNext(&e.hangReads, &hang{d: f.For}))
	case LoseSecond:
		if len(n.devices) > 1 {
			_ = n.devices[1].lose(n.runtime, f.For)
		}
	}
}

// folderLost reports whether the folder of a model cannot be read.
func (f *engineFaults) folderLost(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.folders[path] > 0
}
