package dst

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/node/query"
)

// inject injects a fault, now or in the next step of the planner for which it waits.
func (c *cluster) inject(f Fault) {
	if f.Step == "" {
		c.injectNow(f)
		return
	}
	c.steps.mu.Lock()
	defer c.steps.mu.Unlock()
	c.steps.due = append(c.steps.due, f)
}

func (c *cluster) injectNow(f Fault) {
	n := c.nodes[f.Node]
	if restores(f) {
		c.checks.restore()
	}
	later := func(do func()) {
		c.world.at(time.Now().Add(f.For), func() string { return "end of " + f.String() }, do)
	}
	switch f.Kind {
	case CrashActor:
		n.crashNext(f.Actor, f.After)
	case CrashInJob:
		n.crashInJob(f.Actor, f.Count)
	case CrashNode:
		if n.crashed {
			return
		}
		n.Crash()
		later(func() { c.start(f.Node) })
	case StopNode:
		if n.ready.Load() && !n.crashed && !n.serving.isStopping() {
			n.shutDown(func() { later(func() { c.start(f.Node) }) })
		}
	case Cut:
		from, to := n.address, c.nodes[f.Peer].address
		c.network.Cut(from, to)
		later(func() { c.network.Heal(from, to) })
	case Isolate:
		n.client.Cut()
		var pairs []pair
		for _, other := range c.names {
			if other != f.Node {
				pairs = append(
					pairs,
					pair{n.address, c.nodes[other].address},
					pair{c.nodes[other].address, n.address},
				)
			}
		}
		for _, p := range pairs {
			c.network.Cut(p.from, p.to)
		}
		later(func() {
			for _, p := range pairs {
				c.network.Heal(p.from, p.to)
			}
			n.client.Heal()
		})
	case Outage:
		n.client.Cut()
		later(n.client.Heal)
	case LoseAnswer:
		n.client.LoseAnswers(1)
	case SlowStore:
		n.client.Slow(time.Duration(f.Count) * time.Millisecond)
		later(func() { n.client.Slow(0) })
	case StallStore:
		c.server.Stall(true)
		later(func() { c.server.Stall(false) })
	case LoseBucket:
		c.server.DeleteBucket(f.Bucket)
	case RollBack:
		c.server.RollBack(f.Bucket, uint64(f.Count))
	case Pause:
		n.dispatcher.pause()
		later(n.dispatcher.resume)
	case LoseDevice:
		_ = n.devices[0].lose(n.runtime, f.For)
	case Delete:
		c.operator.Put(f.Model, nil)
		later(func() { c.operator.Put(f.Model, c.spec(modelOf(f.Model))) })
	case Redeploy:
		c.files[f.Model]++
		c.operator.Update(f.Model, func(s *messages.DeploymentSpec) {
			s.Path, s.WeightsDigest, s.RevisionDigest = c.path(f.Model), "", ""
			s.Deploy++
		})
	case HoldActor:
		n.dispatcher.holds.add(f)
	case Migrate:
		c.migrate(n, f.Model)
	case Offload:
		c.command(n, f.Model, &messages.OffloadBlocks{RequestId: n.runtime.ID()})
	case Flush:
		c.command(n, f.Model, &messages.FlushBlocks{RequestId: n.runtime.ID()})
	case Restart:
		c.restart(n, f.Model)
	case Evict:
		for i := range n.devices {
			n.system.Root.Send(n.pid(query.GPU(query.GPUName(i))), &messages.EvictWeights{RequestId: n.runtime.ID()})
		}
	case Sleep:
		c.operator.Update(f.Model, func(s *messages.DeploymentSpec) {
			s.Preemptions = nil // as models.scale does
			s.Replicas, s.MinReplicas, s.IdleAfter = proto.Uint32(0), proto.Uint32(0), proto.Uint32(1)
		})
	case Scale:
		c.operator.Update(f.Model, func(s *messages.DeploymentSpec) {
			s.Replicas, s.MinReplicas, s.MaxReplicas = proto.Uint32(uint32(f.Count)), proto.Uint32(uint32(f.Count)),
				proto.Uint32(uint32(f.Count))
			s.Preemptions = nil
		})
	}
	c.injectAdapters(f, later)
	c.injectDisks(f, later)
	c.injectPrefixes(n, f, later)
	c.injectEngines(n, f, later)
	c.injectDevices(n, f, later)
	c.injectLevels(f, later)
	c.injectPreempt(f, later)
	c.injectSources(n, f, later)
	c.injectPlanner(n, f, later)
}

// endFaults forgets the faults that have not occurred, such as a hang of a load, if nothing was
// loaded, and waits for the end of the hangs.
func (c *cluster) endFaults() {
	c.steps.mu.Lock()
	c.steps.due = nil
	c.steps.mu.Unlock()
	for _, name := range c.names {
		n := c.nodes[name]
		n.faults.cancel()
		n.dispatcher.holds.forget()
		n.mu.Lock()
		clear(n.crashes)
		clear(n.jobCrashes)
		n.mu.Unlock()
	}
	c.world.Run(time.Minute, func() bool {
		return !slices.ContainsFunc(c.names, func(name string) bool {
			n := c.nodes[name]
			return !n.crashed && n.faults.hangs()
		})
	})
}
