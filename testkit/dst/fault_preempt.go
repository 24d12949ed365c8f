package dst

import (
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/control"
	"troupe/messages"
	"troupe/node/query"
)

// Preempt preempts a replica of Model: number Count, modulo their number, of those that run. Its sequences may
// finish within Deadline; Fate is what happens to its weights. With Force, the model may fall below its minimum of
// replicas. After For, the operator withdraws the model's preemptions. If For is 0, the preemption is permanent,
// and it is skipped if the model wants fewer than two replicas.
const Preempt FaultKind = "preempt"

// WeightsFate is what becomes of the weights of a preempted replica.
type WeightsFate string

// Fates.
const (
	KeepWeights WeightsFate = ""
	DropWeights WeightsFate = "drop"
	ParkWeights WeightsFate = "park"
)

// drawPreempt fills in a preemption. One that is never taken back leaves another replica.
func (f *Fault) drawPreempt(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	if f.Kind != Preempt {
		return
	}
	f.Model, f.Count = models[rng.IntN(len(models))].name, rng.IntN(3)
	f.Fate = []WeightsFate{KeepWeights, DropWeights, ParkWeights}[rng.IntN(3)]
	if rng.IntN(3) > 0 {
		f.Deadline = span(time.Millisecond, 3*time.Second)
	}
	if rng.IntN(5) > 0 {
		f.For, f.Force = span(time.Millisecond, 12*time.Second), rng.IntN(4) > 0
	}
}

// injectPreempt preempts a replica as replicas.preempt does.
func (c *cluster) injectPreempt(f Fault, later func(func())) {
	running := c.replicas(f.Model)
	if f.Kind != Preempt || len(running) == 0 {
		return
	}
	r := running[f.Count%len(running)]
	found := &messages.ReplicaStatus{Name: r.name, Model: f.Model, Node: r.node.cfg.Name, Gpu: query.GPUName(0)}
	req := &messages.PreemptReplicaRequest{Name: r.name, Deadline: durationpb.New(f.Deadline), Force: f.Force,
		Drop: f.Fate == DropWeights, Park: f.Fate == ParkWeights}
	id, now := c.operator.runtime.ID(), time.Now()
	c.operator.Update(f.Model, func(s *messages.DeploymentSpec) {
		if f.For == 0 && s.Wanted() < 2 {
			return
		}
		if changed, err := control.Preempt(s, found, req, id, &messages.Hold{Who: "operator"}, now); err == nil {
			proto.Reset(s)
			proto.Merge(s, changed)
		}
	})
	if f.For > 0 {
		later(func() {
			c.operator.Update(f.Model, func(s *messages.DeploymentSpec) { s.Preemptions, s.HeldBy = nil, nil })
		})
	}
}

// preempted reports whether all replicas of a model are preempted.
func (o *operator) preempted(model string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stored[model].Preempted()
}

// restlessPreemptions checks that the preemptions of a deployment have ended.
func restlessPreemptions(s *messages.DeploymentStatus, report func(string, ...any)) {
	for _, p := range s.GetPreemptions() {
		if p.GetPhase() != messages.PreemptionPhase_PREEMPTION_PHASE_ENDED {
			report("the preemption of %s has not ended: %v", p.GetPreemption().GetReplica(), p)
		}
	}
}
