package dst

import (
	"fmt"
	"math/rand/v2"
	"time"

	"troupe/messages"
)

// Standby is an operator action: Model goes to standby, or with Count its replica of that number less
// one. It is activated after For, or never if that is 0.
const Standby FaultKind = "standby"

// drawLevels fills in a change of a level. Some models stay on standby.
func (f *Fault) drawLevels(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	if f.Kind == Standby {
		f.Model, f.Count = models[rng.IntN(len(models))].name, rng.IntN(4)
		if rng.IntN(5) > 0 {
			f.For = span(time.Millisecond, 4*time.Second)
		}
	}
}

// injectLevels changes the level of a model or of one of its replicas.
func (c *cluster) injectLevels(f Fault, later func(func())) {
	if f.Kind != Standby {
		return
	}
	c.setLevel(f, messages.Level_LEVEL_STANDBY)
	if f.For > 0 {
		later(func() { c.setLevel(f, messages.Level_LEVEL_ACTIVE) })
	}
}

// setLevel stores a level. The level of a replica counts more than that of its model.
func (c *cluster) setLevel(f Fault, level messages.Level) {
	c.operator.Update(f.Model, func(s *messages.DeploymentSpec) {
		if f.Count == 0 {
			s.Level, s.ReplicaLevels = level, nil
			return
		}
		if s.ReplicaLevels == nil {
			s.ReplicaLevels = make(map[string]messages.Level)
		}
		s.ReplicaLevels[fmt.Sprintf("%s-%d", f.Model, f.Count-1)] = level
	})
}
