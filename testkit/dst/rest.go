package dst

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/core/restart"
	"troupe/messages"
	"troupe/node/query"
)

// restWithin is the virtual time within which a cluster without requests must come to rest.
const restWithin = 30 * time.Second

// checkRest checks the cluster once no request is open and nothing has failed for a while: the
// wanted replicas must serve, and nothing may be left of earlier replicas, requests or transfers.
func (c *cluster) checkRest() {
	until := time.Now().Add(restWithin)
	if c.checks.cooling { // leases without replicas are found only when the actor is back
		until = until.Add(restart.Window)
	}
	var left []string
	for time.Now().Before(until) && c.world.livelock == nil { // in a livelock, no time passes
		if left = c.restless(); len(left) == 0 {
			return
		}
		c.world.Run(2*time.Second, never)
	}
	for _, l := range left {
		c.fail("not at rest: %s", l)
	}
}

// restless returns descriptions of everything that is not at rest.
func (c *cluster) restless() (left []string) {
	report := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	leased := make(leases)
	for _, m := range c.models {
		c.restlessModel(m.name, leased, report)
	}
	c.restlessNodes(leased, report)
	c.restlessPlans(report)
	if len(left) == 0 {
		c.disagreements(report)
	}
	return left
}

// leases has the level of each replica by "node/device/name". A lease has the name of its replica.
type leases map[string]messages.Level

func (l leases) has(lease string) bool { _, ok := l[lease]; return ok }

// lacksMemory reports whether a deployment reports NO_MEMORY after an allocation fault. Then two replicas of
// another model may share a device, and they move apart only 5 minutes after a failed move.
func (c *cluster) lacksMemory(model string) bool {
	if c.MaxSequences <= maxSequences ||
		!slices.ContainsFunc(c.result.Faults, func(f Fault) bool { return f.Kind == FailAllocs }) {
		return false
	}
	for _, n := range c.alive() {
		id := query.Deployments + "/" + model
		if _, ok := n.system.ProcessRegistry.GetLocal(id); !ok {
			continue
		}
		s, ok := ask[*messages.DeploymentStatus](c, n, n.pid(id), &messages.GetDeployment{})
		return ok && s.GetFailure().GetReason() == messages.Reason_REASON_NO_MEMORY
	}
	return false
}

// restlessModel checks the replicas of a model and adds their leases to leased.
func (c *cluster) restlessModel(model string, leased leases, report func(string, ...any)) {
	placed := 0
	for _, r := range c.replicas(model) {
		s, ok := ask[*messages.ReplicaStatus](c, r.node, r.pid, &messages.GetReplica{})
		if !ok {
			report("%s on %s does not answer", r.name, r.node.cfg.Name)
			continue
		}
		leased[r.node.cfg.Name+"/"+s.GetGpu()+"/"+r.name] = s.GetLevel()
		state := messages.ReplicaState_REPLICA_STATE_SERVING
		if c.operator.level(model, r.name) == messages.Level_LEVEL_STANDBY {
			state = messages.ReplicaState_REPLICA_STATE_STANDBY
		}
		if s.GetState() == state {
			placed++
		}
		if s.GetRunning()+s.GetWaiting() > 0 || s.GetKvBlocksFree() != s.GetKvBlocks() {
			report("%s on %s: %d running, %d waiting, %d of %d KV blocks free", r.name, r.node.cfg.Name,
				s.GetRunning(), s.GetWaiting(), s.GetKvBlocksFree(), s.GetKvBlocks())
		}
		c.restlessAdapters(r, s, report)
	}
	wanted := c.operator.replicas(model)
	if c.operator.level(model, "") == messages.Level_LEVEL_PARKED {
		wanted = 0
	}
	if placed != wanted && !(placed > 0 && placed < wanted && c.lacksMemory(model)) {
		report("%d replicas of %s serve or are on standby as wanted, of %d", placed, model, wanted)
	}
}

// restlessNodes checks the nodes.
func (c *cluster) restlessNodes(leased leases, report func(string, ...any)) {
	for _, name := range c.names {
		n := c.nodes[name]
		if n.crashed {
			report("%s is down", name)
			continue
		}
		if live := n.live(); !n.ready.Load() || len(live) != len(c.names) {
			report("%s knows %d live members", name, len(live))
		}
		for i := range n.devices {
			c.restlessDevice(n, i, leased, report)
		}
		c.restlessTiers(n, report)
		c.restlessImages(n, report)
		for _, call := range c.calls {
			if _, ok := n.system.ProcessRegistry.GetLocal("node/direct/session-" + call.ID); ok && call.Ended() {
				report("%s still has the session of %s", name, call.ID)
			}
		}
		c.restlessGateway(n, report)
		if held := n.client.Held(); held != c.held {
			report("%s holds %+v of the store, and held %+v when it had started", name, held, c.held)
		}
		if open := n.plane.open(); open > 0 {
			report("%s expects %d transfers", name, open)
		}
	}
}

// restlessDevice compares the ledger of a device with its memory and with the replicas on it.
func (c *cluster) restlessDevice(n *Node, i int, leased leases, report func(string, ...any)) {
	where := n.cfg.Name + "/" + query.GPUName(i)
	s, ok := ask[*messages.GpuStatus](c, n, n.pid(query.GPU(query.GPUName(i))), &messages.GetGpu{})
	if !ok {
		report("%s does not answer", where)
		return
	}
	used := int64(0)
	for _, l := range s.GetLeases() {
		if l.GetKind() == "weights" {
			continue
		}
		if !leased.has(where + "/" + l.GetOwner()) {
			report(
				"%s: %d bytes of %s are leased to %s, which is not there",
				where,
				l.GetBytes(),
				l.GetKind(),
				l.GetOwner(),
			)
		}
	}
	for _, m := range n.gpus.Models()[i].Held() {
		for _, l := range s.GetLeases() {
			if l.GetOwner() == m.Lease && l.GetKind() == "adapters" && int(l.GetPages()) != m.AdapterPages {
				report("%s: %d adapter pages are leased to %s, which has %d", where, l.GetPages(), m.Lease,
					m.AdapterPages)
			}
		}
		kv := m.KVBlockBytes * int64(m.KVBlocks)
		one := (m.Info.ContextTokens + m.BlockTokens - 1) / m.BlockTokens
		if standby := leased[where+"/"+m.Lease] == messages.Level_LEVEL_STANDBY; standby && m.KVBlocks > one {
			report("%s: %s is on standby with %d KV blocks, and needs %d", where, m.Lease, m.KVBlocks, one)
		}
		used += (kv+pageBytes-1)/pageBytes*pageBytes + int64(m.AdapterPages)*hbm.PageBytes
	}
	copies := n.gpus.Models()[i].Copies()
	for _, c := range copies {
		used += c.Source.Bytes
	}
	if n.devices[i].inUse() != used {
		report("%s: %d bytes are allocated, and %d are held", where, n.devices[i].inUse(), used)
	}
	restlessWeights(where, s, copies, leased, report)
	c.restlessMemory(n, i, where, report)
}

// ask sends a request and runs the world until it is answered.
func ask[Answer any](c *cluster, n *Node, pid *actor.PID, request any) (a Answer, ok bool) {
	f := supervise.Request(n.system.Root, pid, request, 5*time.Second)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if result, err := f.Result(); err == nil {
			a, ok = result.(Answer)
		}
	}()
	c.world.Run(6*time.Second, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	return a, ok
}
