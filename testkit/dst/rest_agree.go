package dst

import (
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
	"troupe/node/query"
)

// disagreements compares what HBM tiers, replicas and deployments say of the same memory and of the
// same replicas, and finds what actors have not forgotten.
func (c *cluster) disagreements(report func(string, ...any)) {
	replicas := make(map[string]*messages.ReplicaStatus) // by node and name
	for _, m := range c.models {
		leaders := 0
		for _, r := range c.replicas(m.name) {
			if s, ok := ask[*messages.ReplicaStatus](c, r.node, r.pid, &messages.GetReplica{}); ok {
				replicas[r.node.cfg.Name+"/"+r.name] = s
			}
		}
		for _, n := range c.alive() {
			if c.leads(n, m.name, replicas, report) {
				leaders++
			}
		}
		if leaders != 1 {
			report("%d nodes lead %s", leaders, m.name)
		}
	}
	for _, n := range c.alive() {
		for i := range n.devices {
			c.restlessHBM(n, query.GPUName(i), replicas, report)
		}
		c.restlessRoutes(n, replicas, report)
		for _, id := range leftProcesses(n.system) {
			report("%s still has %s", n.cfg.Name, id)
		}
		for _, m := range c.mentioned(n) {
			report("%s", m)
		}
	}
}

// alive returns the nodes that run.
func (c *cluster) alive() (all []*Node) {
	for _, name := range c.names {
		if n := c.nodes[name]; !n.crashed {
			all = append(all, n)
		}
	}
	return all
}

// leads reports whether a node leads a deployment, and compares its view with the replicas.
func (c *cluster) leads(n *Node, model string, replicas map[string]*messages.ReplicaStatus,
	report func(string, ...any),
) bool {
	id := query.Deployments + "/" + model
	if _, ok := n.system.ProcessRegistry.GetLocal(id); !ok {
		return false
	}
	s, ok := ask[*messages.DeploymentStatus](c, n, n.pid(id), &messages.GetDeployment{})
	if !ok {
		report("the deployment %s on %s does not answer", model, n.cfg.Name)
		return true
	}
	state := messages.DeploymentState_DEPLOYMENT_STATE_STANDBY
	for _, of := range s.GetReplicas() {
		if c.operator.level(model, of.GetName()) == messages.Level_LEVEL_ACTIVE {
			state = messages.DeploymentState_DEPLOYMENT_STATE_READY
		}
	}
	if c.operator.preempted(model) {
		state = messages.DeploymentState_DEPLOYMENT_STATE_STOPPED
	}
	if s.GetSpec().GetReplicas() == 0 {
		state = messages.DeploymentState_DEPLOYMENT_STATE_ASLEEP
	}
	if c.operator.allParked(model) {
		state = messages.DeploymentState_DEPLOYMENT_STATE_PARKED
	}
	restlessPreemptions(s, report)
	if s.GetState() != state && !c.lacksMemory(model) {
		report("the deployment %s is %s: %s", model, s.GetState(), s.GetDetail())
	}
	for _, of := range s.GetReplicas() {
		own := replicas[of.GetNode()+"/"+of.GetName()]
		switch {
		case own == nil:
			report("the deployment %s counts %s on %s, which is not there", model, of.GetName(), of.GetNode())
		case own.GetState() != of.GetState() || own.GetIncarnation() != of.GetIncarnation():
			report("the deployment %s knows %s as incarnation %d, %s; it is %d, %s", model, of.GetName(),
				of.GetIncarnation(), of.GetState(), own.GetIncarnation(), own.GetState())
		}
	}
	return true
}

// restlessHBM compares the leases of the HBM tier of a device with the replicas on it.
func (c *cluster) restlessHBM(n *Node, gpu string, replicas map[string]*messages.ReplicaStatus,
	report func(string, ...any),
) {
	where := n.cfg.Name + "/" + gpu
	s, ok := ask[*messages.TierStatus](c, n, n.pid(query.GPU(gpu)+"/hbm"), &messages.GetTier{})
	if !ok {
		report("the HBM tier of %s does not answer", where)
		return
	}
	blocks := make(map[string]*messages.TierLease)
	for _, l := range s.GetLeases() {
		blocks[l.GetLease()] = l
	}
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		r := replicas[name]
		if !strings.HasPrefix(name, n.cfg.Name+"/") || r.GetGpu() != gpu {
			continue
		}
		l := c.leaseOf(blocks, r.GetName())
		same := l.GetBlocks() == r.GetKvBlocks() && l.GetResident() == r.GetKvBlocksCached()
		if !c.Calm { // a crash of the tier or of its device loses what it knew, until the replica restarts
			same = (l.GetBlocks() == 0 || l.GetBlocks() == r.GetKvBlocks()) && l.GetResident() <= r.GetKvBlocksCached()
		}
		if !same {
			report("the HBM tier of %s has %d blocks of %s, %d resident; the replica has %d, %d cached", where,
				l.GetBlocks(), name, l.GetResident(), r.GetKvBlocks(), r.GetKvBlocksCached())
		}
	}
}

// leaseOf returns the lease of a replica.
func (*cluster) leaseOf(all map[string]*messages.TierLease, replica string) *messages.TierLease {
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if id == replica || strings.Contains(id, replica) {
			return all[id]
		}
	}
	return nil
}

// leftProcesses returns the processes of a system that live no longer than a request: futures and
// sessions.
func leftProcesses(sys *actor.ActorSystem) (left []string) {
	for _, shard := range sys.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range shard.Keys() {
			if strings.HasPrefix(id, "future$") || strings.Contains(id, "/session-") {
				left = append(left, id)
			}
		}
	}
	slices.Sort(left)
	return left
}
