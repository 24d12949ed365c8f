package deployment

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/residency"
	"troupe/core/schedule"
)

// TestInvariants plays random plans, events and answers, and checks the invariants of doc.go.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		node := rapid.SampledFrom([]string{"a", "b", "c"})
		c.plan(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { c.check() },
			"answer":  c.answerSome,
			"answer2": c.answerSome,
			"answer3": c.answerSome,
			"answer4": c.answerSome,
			"lose": func(t *rapid.T) {
				if len(c.pending) > 0 {
					c.take(t)
				}
			},
			"tick": func(*rapid.T) { c.tick(time.Second) },
			"wait": func(t *rapid.T) {
				c.tick(rapid.SampledFrom([]time.Duration{11, 40, 700}).Draw(t, "s") * time.Second)
			},
			"plan":  c.plan,
			"plan2": c.plan,
			"later": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "later") == 0 { // an operator of an earlier version stores it
					c.spec.Planned, c.spec.Assigned = false, nil
					c.apply()
				}
			},
			"spec": func(t *rapid.T) {
				c.spec.Sleeps = rapid.Bool().Draw(t, "sleeps")
				c.spec.MaxSequences = uint32(rapid.IntRange(1, 2).Draw(t, "max"))
				c.stored = rapid.IntRange(0, 9).Draw(t, "stored") > 0
				c.apply()
			},
			"level": func(t *rapid.T) {
				c.spec.Level = rapid.SampledFrom([]Level{NoLevel, NoLevel, OnStandby, Parked}).Draw(t, "level")
				c.spec.Levels = map[string]Level{}
				for _, name := range playedNames {
					levels := []Level{NoLevel, NoLevel, OnStandby, OnActive, Parked}
					c.spec.Levels[name] = rapid.SampledFrom(levels).Draw(t, "level of one")
					c.parks[name] = c.parks[name] || c.spec.Levels[name] == Parked
				}
				c.apply()
			},
			"deploy": func(t *rapid.T) {
				c.spec.Revision = schedule.Revision{Deploy: c.spec.Revision.Deploy + 1}
				c.files = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "files")
				c.apply()
			},
			"refuse": c.refuse,
			"want": func(t *rapid.T) {
				waiting, older := rapid.IntRange(0, 2).Draw(t, "waiting"), rapid.IntRange(0, 1).Draw(t, "older")
				c.want(node.Draw(t, "node"), waiting, older)
			},
			"preempt": func(t *rapid.T) {
				if n := c.alive(node.Draw(t, "node")); n != nil && len(n.replicas) > 0 {
					c.preempt(n.replicas[rapid.SampledFrom(n.names()).Draw(t, "replica")], t)
				}
			},
			"release": func(*rapid.T) {
				c.spec.Preemptions = nil
				c.apply()
			},
			"join":  func(t *rapid.T) { c.join(node.Draw(t, "node"), rapid.Bool().Draw(t, "new process")) },
			"leave": func(t *rapid.T) { c.leave(node.Draw(t, "node")) },
			"node": func(t *rapid.T) {
				n := c.nodes[node.Draw(t, "node")]
				n.draining = rapid.IntRange(0, 3).Draw(t, "draining") == 0
				n.quarantined = rapid.IntRange(0, 3).Draw(t, "quarantined") == 0
				n.broken = rapid.IntRange(0, 2).Draw(t, "broken") == 0
				c.members()
			},
			"end": func(t *rapid.T) {
				if name := node.Draw(t, "node"); c.alive(name) != nil && len(c.nodes[name].replicas) > 0 {
					c.end(c.nodes[name], rapid.SampledFrom(c.nodes[name].names()).Draw(t, "replica"), t)
				}
			},
			"report": func(t *rapid.T) {
				if n := c.alive(node.Draw(t, "node")); n != nil && len(n.replicas) > 0 {
					r := n.replicas[rapid.SampledFrom(n.names()).Draw(t, "replica")]
					r.load = rapid.IntRange(0, 3).Draw(t, "load")
					c.report(r.actor)
				}
			},
			"stale": func(t *rapid.T) {
				if rapid.IntRange(0, 20).Draw(t, "stale") == 0 {
					c.handle(StaleTerm{})
					c.fenced = true
				}
			},
		})
		if !c.fenced {
			c.converge()
		}
	})
}

// preempt stores a preemption.
func (c *cluster) preempt(r *playedReplica, t *rapid.T) {
	c.preempted++
	after := rapid.SampledFrom([]time.Duration{0, 5 * time.Second, time.Minute}).Draw(t, "deadline")
	p := Preemption{ID: fmt.Sprint(c.preempted), Replica: r.spec.Name, At: r.spec.At, Deadline: c.now.Add(after),
		Drop: rapid.Bool().Draw(t, "drop")}
	p.Park = !p.Drop && rapid.Bool().Draw(t, "park")
	c.parks[p.Replica] = c.parks[p.Replica] || p.Park
	c.spec.Preemptions = append(slices.Clone(c.spec.Preemptions), p)
	c.apply()
}

// take takes one of the pending commands. Those for the same node keep their order.
func (c *cluster) take(t *rapid.T) Effect {
	i := rapid.IntRange(0, min(len(c.pending)-1, 5)).Draw(t, "command")
	if node := receiver(c.pending[i]); node != "" {
		i = slices.IndexFunc(c.pending, func(e Effect) bool { return receiver(e) == node })
	}
	e := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	if isAnswered(e) {
		c.answer(e)
	}
	return e
}

// isAnswered reports whether the answer to a command cannot be lost. That holds for the results of
// jobs and for the notice that a watched actor has ended.
func isAnswered(e Effect) bool {
	switch e.(type) {
	case Record, StoreLevel, Watch:
		return true
	}
	return false
}

func (c *cluster) answerSome(t *rapid.T) {
	for range rapid.IntRange(1, 5).Draw(t, "answers") {
		if len(c.pending) > 0 {
			if e := c.take(t); !isAnswered(e) {
				c.answer(e)
			}
		}
	}
}

func (c *cluster) tick(d time.Duration) {
	c.now = c.now.Add(d)
	c.fireTimers()
	c.handle(Tick{})
}

func (c *cluster) join(name string, newProcess bool) {
	if newProcess {
		c.nodes[name].replicas = map[string]*playedReplica{}
		c.nodes[name].id++
		c.losePending(name)
	}
	if c.alive(name) == nil {
		c.up = append(c.up, name)
		slices.Sort(c.up)
	}
	c.members()
}

func (c *cluster) leave(name string) {
	if len(c.up) > 1 {
		c.up = slices.DeleteFunc(slices.Clone(c.up), func(n string) bool { return n == name })
		c.losePending(name)
		c.members()
	}
}

// losePending loses the commands on their way to a node.
func (c *cluster) losePending(node string) {
	c.pending = slices.DeleteFunc(c.pending, func(e Effect) bool { return receiver(e) == node })
}

// stateOf returns the state that a replica must have at the end.
func (c *cluster) stateOf(name string) ReplicaState {
	if c.spec.levelOf(name) == OnStandby {
		return ReplicaStandby
	}
	return ReplicaServing
}

// end ends a replica, or cuts the connection to it.
func (c *cluster) end(n *playedNode, name string, t *rapid.T) {
	r := n.replicas[name]
	switch rapid.IntRange(0, 4).Draw(t, "how") {
	case 0:
		for m, at := range c.d.nodes {
			known := slices.Contains(c.d.named(r.actor), name) && c.d.replicas[name].phase != Stopping
			if c.nodes[m] == n && at.reported && known {
				c.listed[m] = c.now
			}
		}
		c.handle(Unreachable{r.actor, "cut off"})
	case 1:
		r.state = ReplicaFailed
		c.handle(Reported{
			Report:  Report{Replica: name, Actor: r.actor, State: ReplicaFailed},
			Failure: &Failure{Reason: Quarantined},
		})
	case 2:
		c.handle(Reported{Report: Report{Replica: name, Actor: r.actor, State: r.state,
			Fault: Fault{Detail: "hung", Corrupt: rapid.Bool().Draw(t, "corrupt")}}})
	default:
		// A repeated StartReplica that arrives after the exit would start the replica again. The
		// deployment would learn of the second start only when it lists the node's replicas. This
		// test leaves that case out.
		c.pending = slices.DeleteFunc(c.pending, func(e Effect) bool {
			s, ok := e.(StartReplica)
			return ok && s.Spec.Name == name
		})
		delete(n.replicas, name)
		c.handle(Exited{r.actor, "crashed"})
	}
}

// view is the part of the deployment's state before an event that the invariants need.
type view struct {
	phases map[string]Phase
	ready  bool                // all nodes have listed their replicas, or timed out
	leases map[string]Location // of replicas that exited
}

func (c *cluster) view() view {
	v := view{phases: map[string]Phase{}, ready: true, leases: maps.Clone(c.d.lastPlacement)}
	for name, r := range c.d.replicas {
		v.phases[name] = r.phase
	}
	for _, joined := range c.listed {
		v.ready = v.ready && (joined.IsZero() || c.now.Sub(joined) >= nodeReplyTimeout)
	}
	return v
}

// handle gives an event to the deployment, checks the effects, and keeps the commands.
func (c *cluster) handle(e Event) {
	before := c.view()
	for _, effect := range c.d.Handle(e, c.now) {
		c.checkEffect(effect, before)
		switch effect.(type) {
		case AskSpec, ListReplicas, AskGPU, Inspect, StartReplica, AskReplica, ConfirmRevision,
			Record, StoreLevel, DrainReplica, SetLevel,
			MigrateSequences, SaveSequences, PreemptAfter, StopReplica, Watch:
			c.pending = append(c.pending, effect)
		}
	}
	c.checkAttempts(e, before)
	if len(c.pending) > 40 {
		c.pending = slices.DeleteFunc(c.pending, func(e Effect) bool { return !isAnswered(e) })
	}
}

func (c *cluster) checkEffect(effect Effect, before view) {
	if _, ok := effect.(Ignored); !ok && c.fenced {
		c.t.Fatalf("fenced: %T", effect)
	}
	switch e := effect.(type) {
	case ListReplicas:
		c.expectMember(e.Node, effect)
	case AskGPU:
		c.expectMember(e.At.Node, effect)
	case DrainReplica:
		c.expectMember(e.Node, effect)
	case SetLevel:
		c.expectMember(e.Node, effect)
		if e.Standby != (c.d.spec.levelOf(e.Replica) == OnStandby) {
			c.t.Fatalf("level: %s learns that standby is %t", e.Replica, e.Standby)
		}
	case SaveSequences:
		c.expectMember(e.Node, effect)
	case StopReplica:
		c.expectMember(e.At.Node, effect)
		asleep := c.d.state == Active && c.d.spec.Rest == schedule.Asleep
		if e.Weights == residency.ParkOrKeep && !asleep {
			c.t.Fatalf("parked: the weights of %s are parked, and it is not asleep", e.Replica)
		}
		if e.Weights == residency.Park && (c.d.state != Active || c.d.spec.Level != Parked && !c.parks[e.Replica]) {
			c.t.Fatalf("parked: the weights of %s are parked, at level %s", e.Replica, c.d.spec.Level)
		}
	case Placed:
		if !before.ready && !c.d.allNodesReported(c.now) {
			c.t.Fatalf("observed first: %s starts", e.Replica)
		}
	case StartReplica:
		c.expectMember(e.Spec.At.Node, effect)
		if before.phases[e.Spec.Name] == Absent && c.d.takenAway(e.Spec.Name) {
			c.t.Fatalf("held: %s is started, and it is preempted or parked", e.Spec.Name)
		}
		at := e.Spec.At
		if bad := !c.d.schedulable(at.Node) || c.d.quarantined[at]; bad && before.phases[e.Spec.Name] != Starting {
			c.t.Fatalf("placed: %s is started on %v", e.Spec.Name, at)
		}
		c.checkStart(e, before)
	case Retiring:
		c.checkRetiring(e)
	case ConfirmRevision:
		r := c.d.replicas[c.d.named(e.Actor)[0]]
		if r.report.Revision != e.Digest || e.Digest != c.d.spec.Revision.Digest {
			c.t.Fatalf("revision: %s found %s, is confirmed with %s", r.spec.Name, r.report.Revision, e.Digest)
		}
	case Record:
		if c.records++; c.records > 1 {
			c.t.Fatal("one record: another one is in flight")
		}
	case StoreLevel:
		c.checkLevel(e)
	}
}

func (c *cluster) checkLevel(e StoreLevel) {
	if c.levels++; c.levels > 1 {
		c.t.Fatal("one level: another one is in flight")
	}
	c.levelAt = c.revision
	dormant, idle := c.dormant(), c.now.Sub(c.wanted)
	switch gaveUp := e.Level == Parked; {
	case !c.stored || !c.spec.Sleeps:
		c.t.Fatalf("woken: it stores level %s, but it may not sleep", e.Level)
	case gaveUp && (dormant || c.spec.held() || idle < 10*time.Second || c.d.failure == nil):
		c.t.Fatalf("given up: dormant: %v, after %s, failure %v", dormant, idle, c.d.failure)
	case gaveUp:
	case !dormant || idle > 0:
		c.t.Fatalf("woken: dormant: %v, and no request waits for %s", dormant, idle)
	case c.spec.held() && (!c.knows || c.leaving()):
		c.t.Fatalf("command: requests that came before it was carried out undo level %s", c.spec.Level)
	case e.Level != NoLevel:
		c.t.Fatalf("woken: at level %s", e.Level)
	case e.Wakes != (c.spec.Replicas > 0):
		c.t.Fatalf("woken: %t, with %d replicas", e.Wakes, c.spec.Replicas)
	}
}

// dormant reports whether no replica is to serve of a deployment that a request may wake.
func (c *cluster) dormant() bool {
	s := c.spec
	return s.Sleeps && s.held() && (s.Level == Parked || c.d.wantedActive() == 0)
}

// leaving reports whether a replica that is to be on standby has reported that it serves or suspends.
func (c *cluster) leaving() bool { return c.spec.Level != Parked && c.d.suspending() }

// want reports how many requests wait at a node, whose router knows the spec that is stored or an
// older one.
func (c *cluster) want(node string, waiting, older int) {
	may := c.stored && c.d.state == Active && c.dormant() && !c.fenced &&
		older == 0 && !c.leaving()
	if waiting > 0 {
		c.wanted = c.now
	}
	c.knows = older == 0
	c.handle(Wanted{Node: node, Waiting: waiting, Wakes: waiting, Stored: uint64(c.revision - older)})
	if may && waiting > 0 && c.levels == 0 {
		c.t.Fatal("woken: a request waits, and no replica is to serve")
	}
}

func (c *cluster) expectMember(node string, e Effect) {
	if c.alive(node) == nil {
		c.t.Fatalf("known: %T for %s, which has left", e, node)
	}
}

func (c *cluster) checkRetiring(e Retiring) {
	for _, joined := range c.listed {
		if !joined.IsZero() && c.now.Sub(joined) < nodeReplyTimeout {
			c.t.Fatalf("observed first: %s is retired", e.Replica)
		}
	}
	r := c.d.replicas[e.Replica]
	if c.d.state == Active && r.preemption == nil && !c.d.takenAway(e.Replica) && !c.mustLeave(r) {
		c.t.Fatalf("offered: %s is retired, though it is not withdrawn: %s", e.Replica, e.Why)
	}
}

// check checks the invariants of the deployment's state.
func (c *cluster) check() {
	if c.fenced {
		return
	}
	failed := c.d.failure != nil && c.d.failure.Reason == NoMemory && c.d.Status().Condition == ConditionFailed
	for name, at := range c.departed {
		if failed && c.now.Sub(at) < awaitNode && c.d.now == c.now {
			c.t.Fatalf("awaited: %s has been away for %s: %s", name, c.now.Sub(at), c.d.failure.Detail)
		}
	}
	for name, r := range c.d.replicas {
		if r.spec.Name != name || r.phase == Absent {
			c.t.Fatalf("unique: %s is %v under the name %s", r.spec.Name, r.phase, name)
		}
		if n := r.spec.At.Node; c.alive(n) == nil {
			c.t.Fatalf("known: %s is on %s, which has left", name, n)
		}
	}
	c.checkPlan()
}
