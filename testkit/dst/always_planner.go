package dst

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/core/planner"
	"troupe/messages"
	"troupe/node/query"
	"troupe/testkit/natskv"
)

// Each write to the store is checked. Only a planner changes assignments: in its own term, over those of the same
// or an earlier term, and together with the number of replicas. Replicas start and lease memory only where they are
// assigned, or were until a moment ago.

// followWithin is the virtual time within which a deployment learns of what is stored: its leader may be cut
// off from the store, or paused, before another node leads. followCalm is that without faults.
const (
	followWithin = 15 * time.Second
	followCalm   = time.Second
)

// planChecks follows the stored assignments.
type planChecks struct {
	planners map[uint64]string               // node that has stored assignments, by term
	stored   map[string]map[string]bool      // by model: replicas with their places, "m-0 on n0/gpu-0"
	until    map[string]map[string]time.Time // by model: until when those that are no longer stored were
	restored bool                            // a fault has brought back older values
	// restarted is when an operator restarted a replica, by its name and node.
	restarted map[[2]string]time.Time
	turns     map[string]*course // by model, since the end of the load
	counts    Seen
}

// course is how the number of replicas of a model has changed.
type course struct{ last, direction, reversals int }

func newPlanChecks() planChecks {
	return planChecks{planners: make(map[uint64]string), stored: make(map[string]map[string]bool),
		until: make(map[string]map[string]time.Time), restarted: make(map[[2]string]time.Time), counts: make(Seen)}
}

// restore notes that older values come back from now on.
func (c *checks) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans.restored = true
}

// operatorRestarts notes that an operator restarts a replica, which may be leaving: its step hangs, for example.
func (c *checks) operatorRestarts(replica, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans.restarted[[2]string{replica, node}] = time.Now()
}

// planned counts what a planner has decided.
func (c *checks) planned(r *planner.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := Seen{"plans": 1, "plans not stored": 0, "models refused": uint64(len(r.Plan.Unmet))}
	for _, w := range r.Writes {
		if w.Outcome != planner.Done {
			seen["plans not stored"] = 1
		}
	}
	for _, d := range r.Plan.Departures {
		if d.For != "" && r.Changed() {
			seen["replicas displaced"]++
		}
	}
	c.plans.counts.Add(seen)
}

// wrote checks a write of a client of the store.
func (c *checks) wrote(client string, w natskv.Write) {
	model, is := strings.CutPrefix(w.Key, "deployments.")
	if w.Bucket != store.Bucket || !is {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, after := specOf(w.Before), specOf(w.After)
	if !proto.Equal(before.GetAssignments(), after.GetAssignments()) {
		c.assigned(client, model, before, after)
	}
	c.follow(model, after)
}

// specOf decodes a stored deployment, or returns nil if it was deleted.
func specOf(value []byte) *messages.DeploymentSpec {
	spec := &messages.DeploymentSpec{}
	if len(value) == 0 || protojson.Unmarshal(value, spec) != nil {
		return nil
	}
	return spec
}

// assigned checks a change of assignments. The caller must hold c.mu.
func (c *checks) assigned(client, model string, before, after *messages.DeploymentSpec) {
	a, p := after.GetAssignments(), &c.plans
	wrong := func(format string, args ...any) {
		c.failLocked("%s stored replicas of %s: %s", client, model, fmt.Sprintf(format, args...))
	}
	switch {
	case p.restored || after == nil:
		return
	case a == nil:
		wrong("they are gone")
		return
	}
	term := a.GetTerm()
	switch other := p.planners[term]; {
	case term == 0:
		wrong("without a term")
	case other != "" && other != client:
		wrong("term %d is that of %s", term, other)
	}
	p.planners[term] = client
	if earlier := before.GetAssignments().GetTerm(); term < earlier {
		wrong("its term %d is older than %d", term, earlier)
	}
	held := after.Held() // then what an operator has taken away does not count
	if a.GetWanted() > after.GetReplicas() || !held && a.GetWanted() != after.GetReplicas() {
		wrong("%d replicas are wanted, and the plan was for %d", after.GetReplicas(), a.GetWanted())
	}
	names := make(map[string]bool)
	for _, r := range a.GetReplicas() {
		if names[r.GetReplica()] || r.GetNode() == "" || len(r.GetGpus()) == 0 || r.GetAt() == nil || r.GetWhy() == "" {
			wrong("%v is not complete, or not the only one", r)
		}
		names[r.GetReplica()] = true
	}
}

// follow notes where replicas are assigned. The caller must hold c.mu.
func (c *checks) follow(model string, spec *messages.DeploymentSpec) {
	p, now := &c.plans, time.Now()
	places := make(map[string]bool)
	for _, r := range spec.GetAssignments().GetReplicas() {
		for _, gpu := range r.GetGpus() {
			places[placeOf(r.GetReplica(), r.GetNode(), gpu)] = true
		}
	}
	if p.until[model] == nil {
		p.until[model] = make(map[string]time.Time)
	}
	for place := range p.stored[model] {
		if !places[place] {
			p.until[model][place] = now
		}
	}
	p.stored[model] = places
	if turns := p.turns; turns != nil && spec != nil {
		if turns[model] == nil {
			turns[model] = &course{last: int(spec.GetReplicas())}
		}
		turns[model].to(int(spec.GetReplicas()))
	}
}

// to notes another number of replicas.
func (s *course) to(n int) {
	direction := 0
	switch {
	case n > s.last:
		direction = 1
	case n < s.last:
		direction = -1
	}
	if direction != 0 && s.direction != 0 && direction != s.direction {
		s.reversals++
	}
	if s.last = n; direction != 0 {
		s.direction = direction
	}
}

func placeOf(replica, node, gpu string) string { return replica + " on " + node + "/" + gpu }

// isAssigned checks that a replica that starts, or whose model is loaded, is assigned there, or was a moment
// ago. The caller must hold c.mu.
func (c *checks) isAssigned(what, model, replica, node, gpu string) {
	p, place := &c.plans, placeOf(replica, node, gpu)
	within := followWithin
	if c.calm {
		within = followCalm
	}
	if p.stored[model][place] || p.restored || time.Since(p.until[model][place]) <= within {
		return
	}
	restarted := time.Since(p.restarted[[2]string{replica, node}]) <= within
	if what == "load" && restarted && !p.until[model][place].IsZero() {
		return // it loads its model again before it goes on leaving
	}
	c.failLocked("%s: %s is not assigned", what, place)
}

// checkPlace checks where a replica starts, and where its model is loaded. The caller must hold c.mu.
func (c *checks) checkPlace(self *actor.PID, m proto.Message) {
	node := nodeOf(self.GetAddress())
	switch m := m.(type) {
	case *messages.StartReplica:
		if r := m.GetReplica(); self.GetId() == query.Replicas {
			c.isAssigned("start", r.GetModel(), r.GetName(), node, r.GetGpu())
		}
	case *messages.LoadModel:
		if gpu, is := strings.CutPrefix(self.GetId(), query.GPU("")); is {
			c.isAssigned("load", m.GetModel(), m.GetLease(), node, gpu)
		}
	}
}

// countTurns counts from now on how often the numbers of replicas change their direction.
func (c *checks) countTurns() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans.turns = make(map[string]*course)
}

// maxReversals is how often the number of replicas of a model may change its direction after the end of the
// load, which is one step of the demand.
const maxReversals = 1

// turnsWithin is the virtual time after the end of the load in which numbers of replicas are watched. It is
// longer than a model must be over-provisioned before it loses a replica.
const turnsWithin = 2 * time.Minute

// checkTurns checks that no number of replicas goes to and fro once the load has ended. If the planner chooses
// the numbers, it watches them for a while, and checks then that the cluster is at rest again.
func (c *cluster) checkTurns() {
	if c.Elastic && c.world.livelock == nil {
		c.world.Run(turnsWithin, never)
		c.checkRest()
	}
	c.checks.turned()
}

// turned finds the numbers of replicas that have changed their direction too often.
func (c *checks) turned() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for model, s := range c.plans.turns {
		if s.reversals > maxReversals {
			all = append(all, fmt.Sprintf("the number of replicas of %s changed its direction %d times after the load",
				model, s.reversals))
		}
	}
	slices.Sort(all)
	for _, text := range all {
		c.failLocked("%s", text)
	}
}
