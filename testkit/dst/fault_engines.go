package dst

import (
	"math/rand/v2"
	"slices"
	"time"

	"troupe/messages"
	"troupe/node/query"
)

// Faults of engines and devices.
const (
	HangStep   FaultKind = "hang-step"    // the next step on Node within For hangs for For, or until its engine stops
	StickStep  FaultKind = "stick-step"   // the next step on Node within For hangs for For, even if its engine stops
	HangReset  FaultKind = "hang-restart" // the next step on Node hangs until its replicas are restarted after For
	FailSteps  FaultKind = "fail-steps"   // the next Count steps on Node fail in the middle
	SlowDevice FaultKind = "slow-device"  // steps on Node take Count times as long for For
	FailAllocs FaultKind = "fail-allocs"  // Node's device allocates no memory for For
	LoseInStep FaultKind = "lose-in-step" // Node's device is lost in the middle of the next step, for For
	HangLoad   FaultKind = "hang-load"    // the next load on Node within For hangs for For, or until it is cancelled
	FailLoads  FaultKind = "fail-loads"   // the next Count loads on Node fail in the middle
	// HangCapture: the next capture of graphs on Node within For hangs for For, or until its engine stops.
	HangCapture FaultKind = "hang-capture"
	// FailCaptures: the next Count captures of graphs on Node fail.
	FailCaptures FaultKind = "fail-captures"
	// DamageLoads: the next Count loads on Node leave other bytes on the device than their source has, which
	// no checksum shows, unless they are the first of their files in the cluster.
	DamageLoads FaultKind = "damage-loads"
)

// drawEngines fills in a fault of an engine or device.
func (f *Fault) drawEngines(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case HangStep, StickStep, HangReset:
		f.For = span(time.Second, 40*time.Second)
	case FailSteps:
		f.Count = 1 + rng.IntN(3)
	case SlowDevice:
		f.Count, f.For = 2<<rng.IntN(4), span(time.Second, 10*time.Second)
	case FailAllocs:
		f.For = span(time.Second, 15*time.Second)
	case LoseInStep:
		f.For = span(2*time.Second, 20*time.Second)
	case HangLoad, HangCapture:
		f.For = span(time.Second, 40*time.Second)
	case FailLoads, DamageLoads, FailCaptures:
		f.Count = 1 + rng.IntN(2)
	}
}

// injectEngines injects a fault of an engine or device.
func (c *cluster) injectEngines(n *Node, f Fault, later func(func())) {
	e := n.faults
	switch f.Kind {
	case HangStep, StickStep:
		later(e.hangNext(&e.hang, &hang{d: f.For, stuck: f.Kind == StickStep}))
	case HangReset:
		forget := e.hangNext(&e.hang, &hang{d: time.Hour})
		later(func() {
			forget()
			for _, m := range c.models {
				c.restart(c.nodes[f.Node], m.name)
			}
		})
	case FailSteps:
		e.change(func() { e.failSteps += f.Count })
	case SlowDevice:
		e.change(func() { e.slow, e.slowUntil = f.Count, n.runtime.Now().Add(f.For) })
	case FailAllocs:
		n.devices[0].setFull(true)
		later(func() { n.devices[0].setFull(false) })
	case LoseInStep:
		e.change(func() { e.loseIn = append(e.loseIn, f.For) })
	case HangLoad:
		later(e.hangNext(&e.hangLoads, &hang{d: f.For}))
	case FailLoads:
		e.change(func() { e.failLoads += f.Count })
	case HangCapture:
		later(e.hangNext(&e.hangCaptures, &hang{d: f.For}))
	case FailCaptures:
		e.change(func() { e.failCaptures += f.Count })
	case DamageLoads:
		e.change(func() { e.damage += f.Count })
	}
}

// hangNext lets the next step, load or capture hang, if it begins before forget is called. Else it would be the
// step of a canary, long after the fault.
func (f *engineFaults) hangNext(hangs *[]*hang, next *hang) (forget func()) {
	f.change(func() { *hangs = append(*hangs, next) })
	return func() {
		f.change(func() { *hangs = slices.DeleteFunc(*hangs, func(h *hang) bool { return h == next }) })
	}
}

// restart restarts the replicas of a model on a node, as an operator does.
func (c *cluster) restart(n *Node, model string) {
	for _, r := range c.replicas(model) {
		if r.node == n {
			c.checks.operatorRestarts(r.name, n.cfg.Name)
			n.system.Root.Send(n.pid(query.Replicas),
				&messages.RestartReplica{RequestId: n.runtime.ID(), Replica: r.name})
		}
	}
}
