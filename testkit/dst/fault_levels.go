package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

// Operator actions on levels.
const (
	// Standby: Model goes to standby, or with Count its replica of that number less one. It is activated
	// after For, or never if that is 0.
	Standby FaultKind = "standby"
	// Switch: Model serves on Node's device, if it has a replica there, and the replicas of other models
	// go to standby. After For all are activated.
	Switch FaultKind = "switch"
	// Park: Model is parked, or with Count its replica of that number less one. It is activated after For,
	// or never if that is 0.
	Park FaultKind = "park"
	// DeleteWeights: Model is deleted, and its replicas free their weights. It is created again after For.
	DeleteWeights FaultKind = "delete-weights"
	// DamageImages changes a byte in each image of the host cache of Node.
	DamageImages FaultKind = "damage-images"
)

// drawLevels fills in a change of a level. Some models stay on standby.
func (f *Fault) drawLevels(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	if f.Kind == Standby {
		f.Model, f.Count = models[rng.IntN(len(models))].name, rng.IntN(4)
		if rng.IntN(5) > 0 {
			f.For = span(time.Millisecond, 4*time.Second)
		}
	}
	if f.Kind == Park {
		f.Model = models[rng.IntN(len(models))].name
		if rng.IntN(5) > 0 {
			f.For = span(time.Millisecond, 8*time.Second)
		}
		f.Count = max(0, rng.IntN(5)-2)
	}
	if f.Kind == DeleteWeights {
		f.Model, f.For = models[rng.IntN(len(models))].name, span(time.Second, 5*time.Second)
	}
	if f.Kind == Switch {
		f.Model, f.For = models[rng.IntN(len(models))].name, span(100*time.Millisecond, 6*time.Second)
	}
}

// injectLevels changes the level of a model or of one of its replicas.
func (c *cluster) injectLevels(f Fault, later func(func())) {
	if f.Kind == Switch {
		c.switchDevice(f, later)
	}
	switch f.Kind {
	case Park:
		c.park(f, later)
		return
	case DeleteWeights:
		c.operator.deleteWeights(f.Model)
		later(func() {
			c.checkWeightsFreed(f.Model)
			c.operator.Put(f.Model, c.spec(modelOf(f.Model)))
		})
		return
	case DamageImages:
		if n := c.nodes[f.Node]; !n.crashed {
			for _, d := range n.devices {
				d.damageImages()
			}
		}
		return
	case Standby:
	default:
		return
	}
	c.setLevel(f, messages.Level_LEVEL_STANDBY)
	if f.For > 0 {
		later(func() { c.setLevel(f, messages.Level_LEVEL_ACTIVE) })
	}
}

// checkWeightsFreed checks that no device has weights of a model that was deleted with them, unless another fault
// may have kept a node from freeing them.
func (c *cluster) checkWeightsFreed(model string) {
	if slices.ContainsFunc(c.result.Faults, func(f Fault) bool { return f.Kind != DeleteWeights && f.Kind != Evict }) {
		return
	}
	for _, n := range c.alive() {
		for _, weights := range n.gpus.Models() {
			for _, one := range weights.Copies() {
				if one.Source.Model == model {
					c.fail("%s has %s of %s, which was deleted with its weights", n.cfg.Name, one.Owner(), model)
				}
			}
		}
	}
}

// switchDevice switches the device of a node, as gpus.switch does.
func (c *cluster) switchDevice(f Fault, later func(func())) {
	var to placed
	var leave []placed
	of := make(map[string]string) // model by replica
	for _, m := range c.models {
		for _, r := range c.replicas(m.name) {
			of[r.name] = m.name
			switch {
			case r.node.cfg.Name != f.Node:
			case m.name != f.Model:
				leave = append(leave, r)
			case to.name == "":
				to = r
			}
		}
	}
	if to.name == "" {
		return
	}
	s := &messages.SwitchGpu{RequestId: c.nodes[f.Node].runtime.ID(), To: to.name, Timeout: durationpb.New(f.For)}
	for _, r := range leave {
		s.Leave = append(s.Leave, r.name)
	}
	c.tellDevice(f.Node, s)
	store := func(r placed, level messages.Level) {
		c.operator.Update(of[r.name], func(s *messages.DeploymentSpec) {
			if s.ReplicaLevels == nil {
				s.ReplicaLevels = make(map[string]messages.Level)
			}
			s.ReplicaLevels[r.name] = level
		})
	}
	store(to, messages.Level_LEVEL_ACTIVE)
	for _, r := range leave {
		store(r, messages.Level_LEVEL_STANDBY)
	}
	later(func() {
		for _, r := range leave {
			store(r, messages.Level_LEVEL_ACTIVE)
		}
	})
	until := time.Now().Add(f.For)
	c.operator.do(func() error { c.followSwitch(f.Node, s, of, until); return nil })
}

// followSwitch reports to a device that a replica that leaves is to serve again, as the control service
// does while it waits for the end of a switch.
func (c *cluster) followSwitch(node string, s *messages.SwitchGpu, of map[string]string, until time.Time) {
	c.world.at(time.Now().Add(20*time.Millisecond), func() string { return "follow switch " + s.GetRequestId() },
		func() {
			for _, r := range s.GetLeave() {
				if c.operator.level(of[r], r) == messages.Level_LEVEL_ACTIVE {
					c.tellDevice(node, &messages.OverruleSwitch{RequestId: c.nodes[node].runtime.ID(),
						Switch: s.GetRequestId(), Replica: r})
					return
				}
			}
			if time.Now().Before(until) {
				c.followSwitch(node, s, of, until)
			}
		})
}

// park parks a model as models.park does.
func (c *cluster) park(f Fault, later func(func())) {
	c.setLevel(f, messages.Level_LEVEL_PARKED)
	if f.Count > 0 {
		if f.For > 0 {
			later(func() { c.setLevel(f, messages.Level_LEVEL_ACTIVE) })
		}
		return
	}
	for _, name := range c.names {
		c.tellDevice(name, &messages.EvictWeights{Model: f.Model, Park: true})
	}
	if f.For > 0 {
		later(func() { c.setLevel(f, messages.Level_LEVEL_UNSPECIFIED) })
	}
}

// activateForGood activates the models that a fault has put on standby for good, and reports whether there
// are any. Requests for them that have begun wait until then.
func (c *cluster) activateForGood() (any bool) {
	for _, f := range c.result.Faults {
		if f.Kind == Standby && f.Count == 0 && f.For == 0 {
			c.setLevel(f, messages.Level_LEVEL_ACTIVE)
			any = true
		}
	}
	return any
}

// setLevel stores a level. The level of a replica counts more than that of its model.
func (c *cluster) setLevel(f Fault, level messages.Level) {
	c.operator.Update(f.Model, func(s *messages.DeploymentSpec) {
		if f.Count == 0 {
			s.Level, s.ReplicaLevels = level, nil
			if level != messages.Level_LEVEL_STANDBY && level != messages.Level_LEVEL_PARKED {
				s.Preemptions = nil
			}
			return
		}
		if s.ReplicaLevels == nil {
			s.ReplicaLevels = make(map[string]messages.Level)
		}
		s.ReplicaLevels[fmt.Sprintf("%s-%d", f.Model, f.Count-1)] = level
	})
}
