package simulate

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/deployment"
	memory "troupe/core/device"
	"troupe/core/preempt"
	core "troupe/core/replica"
	"troupe/core/router"
	"troupe/core/session"
	"troupe/core/turns"
)

// reported is the load of a replica in its last report to the router.
type reported struct {
	running, waiting, blocks, free int
	tokens                         uint64 // computed
}

// told is what a replica has told its deployment.
type told struct {
	state core.State
	final bool // it has a fault from which it does not recover
	load  int  // sequences
}

// startReplica starts a replica of a model, as the node does for its deployment.
func (s *simulation) startReplica(m *model, spec deployment.ReplicaSpec) *replica {
	d := s.located[spec.At]
	s.started++
	r := &replica{sim: s, name: spec.Name, incarnation: s.started << 16, model: m,
		device: d, spec: spec, times: m.Times[d.Kind], began: s.key.at}
	r.id, r.index = fmt.Sprintf("%s#%d", r.name, s.started), s.register(r)
	r.newMachine()
	m.replicas, d.replicas = append(m.replicas, r), append(d.replicas, r)
	r.joinGroup()
	s.byID[r.id] = r
	s.record.note(s.key.at, "start", "replica", r.name, "device", d.name())
	d.hold(r.name, m)
	return r
}

// newMachine gives the replica the machine of its next incarnation.
func (r *replica) newMachine() {
	m := r.model
	r.incarnation++
	r.machine = core.New(core.Config{
		Name: r.name, Model: m.Name, Incarnation: r.incarnation, BlockTokens: m.BlockTokens, LeastBlocks: m.KVBlocks,
		MaxSequences: m.MaxSequences, MaxWaiting: m.MaxWaiting, StepTokens: m.StepTokens, Router: true,
		Revision: m.digest(), Standby: r.spec.Standby, Weight: turns.Weight(turns.Class(m.Class)),
		Watch: r.sim.watchOf(r.name), MaxAdapters: m.Adapters.max(),
	})
	r.newMigration()
}

// restart starts the next incarnation of the replica after a crash. The weights stay on the device, and the KV
// blocks are lost.
func (r *replica) restart() {
	s, d := r.sim, r.device
	r.halt()
	r.perform(r.machine.Stop(), s.key.at)
	r.model.retire(r)
	r.reportAt, r.announceAt, r.retryAt, r.watchAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	r.stepEnd, r.hangs, r.failure, r.told = time.Time{}, 0, nil, told{}
	r.closeParts()
	s.record.endRun(r)
	d.leaveTurns(r)
	r.newMachine()
	r.perform(r.machine.Start(s.key.at), s.key.at)
}

// closeParts ends the adapters of the replica, its migrations, and its exchange of blocks with tiers.
func (r *replica) closeParts() {
	r.migration.close()
	if r.pool != nil {
		r.pool.close()
	}
	if r.tiering != nil {
		r.tiering.close()
	}
	r.pool, r.tiering, r.aborted = nil, nil, nil
}

// halt brings the replica and the counts of its sequences up to date before it ends.
func (r *replica) halt() {
	r.touch()
	r.note()
}

// leaveTurns removes a replica from those that take turns.
func (d *device) leaveTurns(r *replica) {
	for _, other := range d.replicas {
		if other != r {
			other.touch()
		}
	}
	d.perform(d.machine.Leave(r.name, d.sim.key.at), d.sim.key.at)
}

// address returns the address of the replica's actor.
func (r *replica) address() deployment.Ref { return deployment.Ref{Address: r.device.Node, ID: r.id} }

func (r *replica) session() session.Actor { return session.Actor(r.address()) }

// owner returns the owner of the replica's lease, which is the same for all replicas of the name.
func (r *replica) owner() memory.Actor { return memory.Actor{Address: r.device.Node, ID: r.name} }

// post queues an event for the replica, to be delivered after the current effects. The event is dropped if the
// replica has ended or crashed by then.
func (r *replica) post(do func(now time.Time) []core.Effect) {
	r.sim.post(r.alive(do))
}

// alive returns a function that gives the replica an event, unless it has ended or crashed since.
func (r *replica) alive(do func(now time.Time) []core.Effect) func() {
	incarnation := r.incarnation
	return func() {
		if !r.ended && r.incarnation == incarnation {
			r.touch()
			r.perform(do(r.sim.key.at), r.sim.key.at)
		}
	}
}

// serving reports whether the replica serves, as far as others hear.
func (r *replica) serving() bool { return r.machine.State() == core.Serving && !r.cutOff() }

var replicaStates = map[core.State]deployment.ReplicaState{core.Serving: deployment.ReplicaServing,
	core.Suspending: deployment.ReplicaSuspending, core.Standby: deployment.ReplicaStandby,
	core.Draining: deployment.ReplicaDraining, core.Saving: deployment.ReplicaDraining,
	core.Saved: deployment.ReplicaDraining, core.Failed: deployment.ReplicaFailed}

// report returns the report of the replica to its deployment.
func (r *replica) report() deployment.Reported {
	s := r.machine.Status()
	state, known := replicaStates[s.State]
	if !known {
		state = deployment.ReplicaLoading
	}
	report := deployment.Report{Replica: r.name, Actor: r.address(), GPU: r.device.Device.Name, State: state,
		Load: s.Running + s.Waiting, Weights: r.model.digest(), Revision: r.model.digest(), Found: s.FoundRevision,
		Departures: preempt.Counts(s.Departures)}
	if s.Fault != nil && s.Fault.Final {
		report.Fault = deployment.Fault{Detail: s.Fault.Detail, Corrupt: s.Fault.Corrupt}
	}
	return deployment.Reported{Report: report, Failure: r.failure}
}

// publish reports to the deployment, unless only the load has changed: the deployment learns that before it
// decides (report in tick).
func (r *replica) publish() {
	if r.cutOff() {
		return
	}
	is := told{state: r.machine.State(), load: r.told.load}
	if r.machine.Faulty() {
		is.final = r.machine.Status().Fault.Final
	}
	if is == r.told {
		return
	}
	r.told = is
	r.model.post(r.report())
	if is.state == core.Serving && !r.up {
		r.up = true
		r.model.serves(r)
	}
}

// reportKV reports on the KV memory, as the actor does each second.
func (r *replica) reportKV(now time.Time) {
	r.touch()
	r.fired(core.KVTimer, now)
}

func (d *device) shrunk(r *replica, e core.KVShrunk) {
	incarnation := r.incarnation
	d.sim.post(func() {
		if r.ended || r.incarnation != incarnation {
			return
		}
		if now := d.sim.key.at; e.Refusal == nil {
			d.performMemory(d.memory.Shrunk(r.owner(), r.name, e.Attempt, now))
		} else {
			d.performMemory(d.memory.ShrinkRefused(r.owner(), r.name, e.Attempt, e.Refusal.Detail, now))
		}
	})
}

// note counts the tokens of all sequences of the replica. Those of steady steps have not been counted one by one.
func (r *replica) note() {
	if r.machine.Batch() == nil || r.cutOff() {
		return
	}
	for _, q := range r.assigned() {
		if _, output, ok := r.machine.Batch().Sequence(q.id); ok {
			q.emitted = len(output)
		}
	}
}

// assigned returns the requests that the replica has, in the order of their arrival.
func (r *replica) assigned() (all []*request) {
	for _, q := range r.sim.requests {
		if q.replica == r {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *request) int { return int(a.number) - int(b.number) })
	return all
}

// stop stops the replica. Its sessions submit their sequences elsewhere.
func (r *replica) stop() {
	r.halt()
	r.perform(r.machine.Stop(), r.sim.key.at)
	r.end()
	delete(r.sim.byID, r.id)
	r.losePeer(r.device.node.reaches)
	r.device.leaveTurns(r)
	r.sim.performRouter(r.sim.router.Lost(router.Actor(r.address()), r.sim.key.at))
	r.succeed()
}

// succeed lets the replica that has the same name on another node announce itself to the router, which may have
// replaced it with this one and forgotten both. The replicas of a cluster announce themselves all the time.
func (r *replica) succeed() {
	other := r.sim.named(r.name)
	if other == nil {
		return
	}
	r.sim.after(announceEvery, func() {
		if !other.ended {
			other.touch()
			other.perform(other.machine.AnnounceAll(r.sim.key.at), r.sim.key.at)
		}
	})
}

// end removes a replica that has stopped, or was lost.
func (r *replica) end() {
	s, d := r.sim, r.device
	r.ended = true
	r.stepEnd, r.ends = time.Time{}, nil
	s.queue.clear(r.index)
	s.freeIndex(r.index)
	s.record.endRun(r)
	r.model.retire(r)
	r.closeParts()
	r.model.replicas, d.replicas = remove(r.model.replicas, r), remove(d.replicas, r)
	r.leaveGroup()
}

func remove[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(is T) bool { return is == one })
}
