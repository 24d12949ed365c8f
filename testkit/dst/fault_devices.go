package dst

import (
	"math/rand/v2"
	"time"

	"troupe/core/health"
	"troupe/messages"
	"troupe/node/query"
)

// Faults of devices, and operator actions that concern their quarantine.
const (
	CorruptDevice    FaultKind = "corrupt-device"    // Node's device has a memory error that ECC cannot correct
	QuarantineDevice FaultKind = "quarantine-device" // an operator quarantines Node's device, and releases it after For
	ReleaseDevice    FaultKind = "release-device"    // an operator releases Node's device
	FailTests        FaultKind = "fail-tests"        // self-tests of Node's device fail for For
)

// drawDevices fills in a fault or operator action that concerns the health of a device. With an odd
// Count, the operator skips the self-test.
func (f *Fault) drawDevices(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case CorruptDevice, QuarantineDevice:
		f.For, f.Count = span(time.Second, 20*time.Second), rng.IntN(3)
	case ReleaseDevice:
		f.Count = rng.IntN(3)
	case FailTests:
		f.For = span(time.Second, 20*time.Second)
	}
}

// injectDevices injects a fault of a device. The operator releases it after For in any case, and
// again until it has passed a self-test.
func (c *cluster) injectDevices(n *Node, f Fault, later func(func())) {
	d := n.devices[0]
	switch f.Kind {
	case CorruptDevice:
		d.corrupt()
		later(func() { c.release(f, 1) })
	case QuarantineDevice:
		c.tellDevice(f.Node, &messages.QuarantineGpu{RequestId: n.runtime.ID(), Detail: "by the simulation"})
		later(func() { c.release(f, 1) })
	case ReleaseDevice:
		c.release(f, 0)
	case FailTests:
		d.setUntestable(true)
		later(func() { d.setUntestable(false) })
	}
}

// release releases a device as an operator does, and again later, until the quarantine has ended.
func (c *cluster) release(f Fault, again int) {
	c.tellDevice(f.Node, &messages.ReleaseGpu{RequestId: c.nodes[f.Node].runtime.ID(), Untested: f.Count == 1})
	if again > 0 {
		c.world.at(time.Now().Add(reloadTime), func() string { return "release " + f.Node },
			func() { c.release(f, again-1) })
	}
}

// tellDevice sends a command to the device of a node.
func (c *cluster) tellDevice(name string, command any) {
	if n := c.nodes[name]; !n.crashed {
		n.system.Root.Send(n.pid(query.GPU(query.GPUName(0))), command)
	}
}

// corrupt counts an error of the device's memory.
func (d *Device) corrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errors++
}

// setUntestable makes self-tests fail, or lets them pass again.
func (d *Device) setUntestable(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.untestable = on
}

// observed returns what can be observed of the device.
func (d *Device) observed() (seen health.Observation) {
	if d.lost {
		seen.Lost = "the simulation lost it"
	}
	seen.Uncorrectable = health.Known(d.errors)
	return seen
}
