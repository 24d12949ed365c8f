package dst

import (
	"slices"
	"time"
)

// reloadTime is the time within which models are served again after a device or a node is back.
const reloadTime = 10 * time.Second

// scarceDevices reports whether a device was lost while no other node could take its replicas, because
// it was away, had lost its device, or had no memory.
func (c *cluster) scarceDevices() bool { return c.scarce(losesDevice) }

// scarceNodes reports whether no node could take replicas at a time.
func (c *cluster) scarceNodes() bool { return c.scarce(takesAway) }

// scarce reports whether a node had such a fault while the others could not take its replicas. One of
// them alone may lack the memory, since it has replicas of its own.
func (c *cluster) scarce(first func(Fault) bool) bool {
	for _, f := range c.result.Faults {
		if !first(f) {
			continue
		}
		away := make(map[string]bool)
		for _, other := range c.result.Faults {
			if takesAway(other) && f.At < other.At+other.For+reloadTime && other.At < f.At+f.For+reloadTime {
				away[other.Node] = true
				if other.Kind == Cut {
					away[other.Peer] = true
				}
			}
		}
		delete(away, f.Node)
		if len(away) >= len(c.names)-1 || len(away) == len(c.names)-2 && c.grows() {
			return true
		}
	}
	return false
}

// grows reports whether the models need more memory than at the start, or than one device has, or one
// of them is placed again, after others have taken the memory that it had.
func (c *cluster) grows() bool {
	return c.MaxSequences > maxSequences || slices.ContainsFunc(c.result.Faults, func(f Fault) bool {
		switch f.Kind {
		case Redeploy, Register, Park, Sleep, Delete, DeleteWeights, Preempt:
			return true
		}
		return f.Kind == Scale && f.Count > 1
	})
}

func losesDevice(f Fault) bool {
	switch f.Kind {
	case LoseDevice, LoseInStep, CorruptDevice, QuarantineDevice:
		return true
	}
	return false
}

func takesAway(f Fault) bool {
	switch f.Kind {
	case CrashNode, StopNode, Isolate, Cut, Pause, Outage, SlowStore, StallStore, FailAllocs, HangLoad, FailLoads,
		HangStep, StickStep: // no other replica of the model starts for a while where one has hung or failed
		return true
	}
	return losesDevice(f)
}
