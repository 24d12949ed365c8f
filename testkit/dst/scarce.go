package dst

import "time"

// reloadTime is the time within which models are served again after a device or a node is back.
const reloadTime = 10 * time.Second

// scarceDevices reports whether a device was lost while another node could not take its replicas,
// because it was away, had lost its device, or had no memory.
func (c *cluster) scarceDevices() bool { return c.together(losesDevice, takesAway) }

// scarceNodes reports whether two nodes could not take replicas at a time.
func (c *cluster) scarceNodes() bool { return c.together(takesAway, takesAway) }

// together reports whether two nodes had faults of these kinds at a time.
func (c *cluster) together(one, two func(Fault) bool) bool {
	for _, f := range c.result.Faults {
		for _, other := range c.result.Faults {
			if one(f) && two(other) && other.Node != f.Node && f.At < other.At+other.For+reloadTime &&
				other.At < f.At+f.For+reloadTime {
				return true
			}
		}
	}
	return false
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
	case CrashNode, StopNode, Isolate, Outage, SlowStore, FailAllocs, HangLoad, FailLoads, StickStep:
		return true
	}
	return losesDevice(f)
}
