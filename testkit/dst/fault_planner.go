package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/planner"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/node/membership"
	"troupe/node/query"
)

// Faults of the planner, and commands of operators to it.
const (
	// LoseLease: the planner's lease is released, so that another node may acquire it. The planner that had it
	// learns of that only after For, and goes on until then.
	LoseLease FaultKind = "lose-lease"
	// PausePlanner: an operator pauses the planner for For.
	PausePlanner FaultKind = "pause-planner"
	// Drain: an operator drains Node for For.
	Drain FaultKind = "drain"
	// RestoreOld: an operator stores Model as it was Count writes ago, with the replicas of then.
	RestoreOld FaultKind = "restore-old"
	// AskPlan: an operator asks the planner of Node for a plan, and why Model has its replicas.
	AskPlan FaultKind = "ask-plan"
)

// The steps of the planner in which a fault may occur, by the message that ends each.
var planSteps = []string{"acquired", "viewed", "surveyed", "made", "stored"}

// drawPlanner fills in a fault of the planner. With Options.Steps, many faults wait for a step of the leader.
func (f *Fault) drawPlanner(rng *rand.Rand, o Options, span func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case LoseLease:
		if f.For = span(time.Millisecond, 2*time.Second); rng.IntN(2) == 0 {
			f.For = 0
		}
	case PausePlanner:
		f.For = span(100*time.Millisecond, 12*time.Second)
	case Drain:
		f.For = span(time.Second, 8*time.Second)
	case RestoreOld:
		f.Model, f.Count = models[rng.IntN(len(models))].name, 1+rng.IntN(6)
	case AskPlan:
		f.Model = models[rng.IntN(len(models))].name
	}
	if !o.Steps {
		return
	}
	switch f.Kind {
	case CrashActor, CrashNode, LoseAnswer, Outage, Isolate, Scale, LoseLease, PausePlanner, Redeploy, Pause, Delete:
		if rng.IntN(3) > 0 {
			f.Step = planSteps[rng.IntN(len(planSteps))]
			if f.Kind == CrashActor {
				f.Actor = "planner"
			}
		}
	}
}

// stepFaults holds faults that wait for the leading planner to reach the step Fault.Step. A fault of a node then
// hits the node of that planner.
type stepFaults struct {
	mu       sync.Mutex
	due      []Fault
	injected Seen // faults, by step
}

// FaultsIn names the count of the faults that were injected in a step of the planner.
func FaultsIn(step string) string { return "faults in " + step }

// PlanSteps returns the steps of the planner in which faults are injected.
func PlanSteps() []string { return slices.Clone(planSteps) }

// planStep injects the faults that wait for a step of the planner. Faults other than crashes of the actor
// occur right after the message, or while it is being handled.
func (c *cluster) planStep(n *Node, message any) {
	step, is := strings.CutPrefix(fmt.Sprintf("%T", message), "*planner.")
	if !is || step == "acquired" != (n.leadsPlanner() == 0) {
		return
	}
	c.steps.mu.Lock()
	defer c.steps.mu.Unlock()
	var left []Fault
	for _, f := range c.steps.due {
		if f.Step != step {
			left = append(left, f)
			continue
		}
		f.Node = n.cfg.Name
		c.steps.injected.Add(Seen{FaultsIn(step): 1})
		switch f.Kind {
		case CrashActor:
			n.crashNext(f.Actor, f.After)
		case LoseAnswer:
			n.client.LoseAnswers(1)
		default:
			c.world.at(time.Now(), f.String, func() { c.injectNow(f) })
		}
	}
	c.steps.due = left
}

// restores reports whether a fault brings back older stored values.
func restores(f Fault) bool {
	return f.Kind == LoseBucket || f.Kind == RollBack || f.Kind == RestoreOld
}

// leadsPlanner returns the term in which the planner of a node leads; 0: it does not.
func (n *Node) leadsPlanner() uint64 {
	if n.members == nil { // it starts
		return 0
	}
	if leader, term := n.plannerLeases().Holder(planner.Role); leader == n.cfg.Name {
		return term
	}
	return 0
}

// plannerLeases are the leases as the planner of a node knows them. While staleTerm is not 0, it believes
// that it leads in that term.
type plannerLeases struct {
	membership.Leases
	node *Node
}

func (n *Node) plannerLeases() plannerLeases {
	return plannerLeases{membership.Leases{Node: n.cfg.Name, Members: n.members}, n}
}

// Holder implements a part of deployment.Leases.
func (l plannerLeases) Holder(role string) (member string, term uint64) {
	if term = l.node.staleTerm.Load(); term != 0 {
		return l.node.cfg.Name, term
	}
	return l.Leases.Holder(role)
}

// injectPlanner injects a fault of the planner.
func (c *cluster) injectPlanner(n *Node, f Fault, later func(func())) {
	switch f.Kind {
	case LoseLease:
		c.loseLease(later)
	case PausePlanner:
		c.operator.pausePlanner(true)
		later(func() { c.operator.pausePlanner(false) })
	case Drain:
		c.operator.drain(f.Node, true)
		later(func() { c.operator.drain(f.Node, false) })
	case RestoreOld:
		c.operator.restore(f.Model, f.Count)
	case AskPlan:
		if n.ready.Load() && !n.crashed {
			n.askLater(&messages.GetPlan{RequestId: n.runtime.ID(), Now: true})
			n.askLater(&messages.ExplainModel{RequestId: n.runtime.ID(), Model: f.Model})
		}
	}
}

// askLater sends a request to the planner of a node, and does not wait for the answer.
func (n *Node) askLater(request any) {
	f := supervise.Request(n.system.Root, actor.NewPID(n.address, query.Planner), request, 20*time.Second)
	go func() { _, _ = f.Result() }()
}

// loseLease releases the lease of the planner that leads.
func (c *cluster) loseLease(later func(func())) {
	for _, n := range c.alive() {
		term := n.leadsPlanner()
		if term == 0 {
			continue
		}
		n.staleTerm.Store(term)
		later(func() { n.staleTerm.Store(0) })
		n.runtime.Go(func() { _ = n.members.Release(n.ctx, planner.Role, term) })
	}
}

func (o *operator) pausePlanner(paused bool) {
	o.do(func() error {
		return o.store.PutPlannerPause(o.ctx, &messages.PlannerPause{Paused: paused, By: operatorName})
	})
}

func (o *operator) drain(node string, draining bool) {
	o.do(func() error { return o.store.PutNode(o.ctx, &messages.NodeSpec{Name: node, Draining: draining}) })
}

// restore stores a deployment as it was some writes ago, over what is stored.
func (o *operator) restore(name string, writes int) {
	o.do(func() error {
		o.mu.Lock()
		all := o.history[name]
		o.mu.Unlock()
		_, at, err := o.store.Get(o.ctx, name)
		if err != nil || len(all) == 0 {
			return err
		}
		_, err = o.store.Put(o.ctx, proto.CloneOf(all[max(0, len(all)-1-writes)]), at)
		return err
	})
}
