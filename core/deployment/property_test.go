package deployment

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
	"troupe/core/preempt"
	"troupe/core/residency"
	"troupe/core/schedule"
)

// TestInvariants plays random events and answers, and checks the invariants of doc.go.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		node := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { c.check() },
			"answer":  c.answerSome,
			"answer2": c.answerSome,
			"answer3": c.answerSome,
			"lose": func(t *rapid.T) {
				if len(c.pending) > 0 {
					c.take(t)
				}
			},
			"tick": func(*rapid.T) { c.tick(time.Second) },
			"wait": func(t *rapid.T) {
				c.tick(rapid.SampledFrom([]time.Duration{11, 40, 400}).Draw(t, "s") * time.Second)
			},
			"spec": func(t *rapid.T) {
				c.spec.Replicas = rapid.IntRange(0, 3).Draw(t, "replicas")
				c.spec.Sleeps = rapid.Bool().Draw(t, "sleeps")
				c.spec.MaxSequences = uint32(rapid.IntRange(1, 2).Draw(t, "max"))
				c.stored = rapid.IntRange(0, 9).Draw(t, "stored") > 0
				c.apply()
			},
			"level": func(t *rapid.T) {
				level := rapid.SampledFrom([]Level{NoLevel, OnStandby, Parked})
				c.spec.Level, c.spec.Levels = level.Draw(t, "level"), map[string]Level{}
				for _, name := range sorted(c.d.replicas) {
					levels := []Level{NoLevel, OnStandby, OnActive, Parked}
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
				n.full = rapid.IntRange(0, 3).Draw(t, "full") == 0
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
	case Record, Scale, Watch:
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
	phases   map[string]Phase
	reserved map[string]bool
	ready    bool // all nodes have listed their replicas, or timed out
	serving  int
	leases   map[string]Location // of replicas that exited
}

func (c *cluster) view() view {
	v := view{
		phases: map[string]Phase{}, reserved: map[string]bool{}, ready: true, leases: maps.Clone(c.d.lastPlacement),
	}
	for name, r := range c.d.replicas {
		v.phases[name] = r.phase
		if r.serving() {
			v.serving++
		}
	}
	for name := range c.d.reservedNames {
		_, returns := c.d.lastPlacement[name]
		v.reserved[name] = !returns
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
		case AskSpec, ListReplicas, AskGPU, Place, SurveyGPUs, Inspect, StartReplica, AskReplica, ConfirmRevision,
			Record, Scale, DrainReplica, SetLevel,
			MigrateSequences, SaveSequences, PreemptAfter, StopReplica, Watch:
			c.pending = append(c.pending, effect)
		}
	}
	c.checkAttempts(e, before)
	if len(c.pending) > 40 {
		c.pending = slices.DeleteFunc(c.pending, func(e Effect) bool { return !isAnswered(e) })
	}
	for name, r := range c.d.replicas {
		if before.phases[name] == Absent && before.reserved[name] && !r.adopted && !c.d.planned() {
			c.t.Fatalf("unique: %s is reserved for a lost node", name)
		}
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
	case Place:
		for _, at := range e.GPUs {
			c.expectMember(at.Node, effect)
		}
		if before.phases[e.Replica] == Absent && !before.ready && !c.d.allNodesReported(c.now) {
			c.t.Fatalf("observed first: %s is placed", e.Replica)
		}
	case Placed:
		if c.now.Before(c.d.avoidUntil[e.At]) && !c.d.planned() {
			c.t.Fatalf("avoidance: %s is placed on %v", e.Replica, e.At)
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
		c.checkRetiring(e, before)
	case ConfirmRevision:
		r := c.d.replicas[c.d.named(e.Actor)[0]]
		if r.report.Revision != e.Digest || e.Digest != c.d.spec.Revision.Digest {
			c.t.Fatalf("revision: %s found %s, is confirmed with %s", r.spec.Name, r.report.Revision, e.Digest)
		}
	case Record:
		if c.records++; c.records > 1 {
			c.t.Fatal("one record: another one is in flight")
		}
	case Scale:
		c.checkScale(e)
	}
}

func (c *cluster) checkScale(e Scale) {
	if c.scales++; c.scales > 1 {
		c.t.Fatal("one scale: another one is in flight")
	}
	c.scaledAt = c.revision
	if c.d.planned() && (c.d.spec.Planning != c.spec.Planning || e.To != c.spec.Replicas) {
		c.t.Fatalf("planned: it is scaled from %d to %d replicas", c.spec.Replicas, e.To)
	}
	dormant, idle := c.dormant(), c.now.Sub(c.wanted)
	switch gaveUp := e.To == 0 && !c.d.planned() || e.Level == Parked; {
	case !c.stored || !c.spec.Sleeps:
		c.t.Fatalf("woken: it is scaled to %d, but it may not sleep", e.To)
	case gaveUp && (dormant || c.spec.held() || idle < 10*time.Second || c.d.failure == nil):
		c.t.Fatalf("given up: dormant: %v, after %s, failure %v", dormant, idle, c.d.failure)
	case gaveUp:
	case !dormant || idle > 0:
		c.t.Fatalf("woken: dormant: %v, and no request waits for %s", dormant, idle)
	case c.spec.held() && (!c.knows || c.leaving()):
		c.t.Fatalf("command: requests that came before it was carried out undo level %s", c.spec.Level)
	case e.To != max(1, c.spec.Replicas) && !c.d.planned() || e.Level != NoLevel:
		c.t.Fatalf("woken: with %d replicas at level %s, not %d", e.To, e.Level, c.spec.Replicas)
	}
}

// dormant reports whether no replica is to serve of a deployment that a request may wake.
func (c *cluster) dormant() bool {
	s := c.spec
	if c.d.planned() && !s.held() {
		return false
	}
	all := s.Level == Parked || s.held() && c.d.wantedActive() == 0
	return s.Sleeps && (restOf(s) == schedule.Asleep || all)
}

// leaving reports whether a replica that is to be on standby has reported that it serves or suspends.
func (c *cluster) leaving() bool { return c.spec.Level != Parked && c.d.suspending() }

// want reports how many requests wait at a node, whose router knows the spec that is stored or an
// older one.
func (c *cluster) want(node string, waiting, older int) {
	may := c.stored && c.d.state == Active && c.dormant() && !c.fenced &&
		(older == 0 && !c.leaving() || !c.spec.held())
	if waiting > 0 {
		c.wanted = c.now
	}
	c.knows = older == 0
	c.handle(Wanted{Node: node, Waiting: waiting, Wakes: waiting, Stored: uint64(c.revision - older)})
	if may && waiting > 0 && c.scales == 0 {
		c.t.Fatal("woken: a request waits, and no replica is to serve")
	}
}

func (c *cluster) expectMember(node string, e Effect) {
	if c.alive(node) == nil {
		c.t.Fatalf("known: %T for %s, which has left", e, node)
	}
}

func (c *cluster) checkRetiring(e Retiring, before view) {
	for _, joined := range c.listed {
		if !joined.IsZero() && c.now.Sub(joined) < nodeReplyTimeout {
			c.t.Fatalf("observed first: %s is retired", e.Replica)
		}
	}
	r := c.d.replicas[e.Replica]
	planned := c.d.planned() && c.d.state == Active && r.preemption == nil && !c.d.takenAway(e.Replica)
	if planned && !c.mustLeave(r) {
		c.t.Fatalf("offered: %s is retired, though it is not withdrawn: %s", e.Replica, e.Why)
	}
	moves := ""
	for name, r := range c.d.replicas { // the phase of the retired replica is already Draining

		if name == e.Replica && r.preemption == nil && r.substitute != "" && c.d.current(r) &&
			!c.d.evicted(r) && before.phases[name] == Up {
			moves = r.substitute
		}
	}
	s := c.d.replicas[moves]
	kept := 0
	for _, r := range c.d.replicas {
		if r.phase == Up {
			kept++
		}
	}
	if s != nil && s.phase <= Up && c.d.state == Active && kept < c.d.spec.Wanted() {
		c.t.Fatalf("substitute first: %s leaves, %d of %d remain", e.Replica, kept, c.d.spec.Wanted())
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
	starting := 0
	for name, r := range c.d.replicas {
		if r.spec.Name != name || r.phase == Absent {
			c.t.Fatalf("unique: %s is %v under the name %s", r.spec.Name, r.phase, name)
		}
		if r.phase == Placing || r.phase == Starting {
			starting++
		}
		if n := r.spec.At.Node; r.phase > Placing && c.alive(n) == nil {
			c.t.Fatalf("known: %s is on %s, which has left", name, n)
		}
	}
	c.checkPlan()
	if starting > 1 && !c.d.planned() {
		c.t.Fatalf("one at a time: %d replicas are being placed or started", starting)
	}
}

// converge ends all faults, answers all commands for a while, and checks that the deployment
// matches its spec.
func (c *cluster) converge() {
	c.spec.Revision = schedule.Revision{Deploy: c.spec.Revision.Deploy + 1} // files may differ from those recorded
	c.apply()
	for _, n := range c.nodes {
		n.draining, n.quarantined, n.full = false, false, false
	}
	c.members()
	for range 200 {
		c.tick(time.Second)
		if c.spec.Sleeps {
			c.want("a", 1, 0)
		}
		for len(c.pending) > 0 {
			e := c.pending[0]
			c.pending = c.pending[1:]
			c.answer(e)
			c.check()
		}
		for _, name := range c.up { // replicas finish their sequences, and report each second
			for _, r := range c.nodes[name].names() {
				c.nodes[name].replicas[r].load = 0
				c.report(c.nodes[name].replicas[r].actor)
			}
		}
	}
	if c.stored && c.dormant() {
		c.t.Fatal("woken: requests wait, and no replica is to serve")
	}
	want := c.spec.Wanted()
	if !c.stored {
		want = 0
	}
	for _, p := range c.d.preemptions {
		if p.machine.Phase() != preempt.Ended {
			c.t.Fatalf("converges: the preemption of %s is %v", p.Replica, p.machine.Phase())
		}
	}
	running := 0
	for _, name := range c.up {
		for _, r := range c.nodes[name].replicas {
			running++
			at := c.d.replicas[r.spec.Name]
			if at == nil || !c.d.current(at) || at.actor != r.actor || at.phase != Up ||
				at.last().State != c.stateOf(r.spec.Name) {
				c.t.Fatalf("converges: %+v on %s is %+v", r, name, at)
			}
		}
	}
	if running != want || len(c.d.replicas) != want || len(c.d.orphans) > 0 || c.stored != (c.d.state == Active) {
		c.t.Fatalf("converges: %d replicas run, %d are known, want %d; %d orphans; %v",
			running, len(c.d.replicas), want, len(c.d.orphans), c.d.state)
	}
	standby := 0
	for name := range c.d.replicas {
		if c.stateOf(name) == ReplicaStandby {
			standby++
		}
	}
	condition := ConditionReady
	if standby == want {
		condition = ConditionStandby
	}
	if is := c.d.Status().Condition; c.stored && c.spec.allParked() && is != ConditionParked {
		c.t.Fatalf("converges: %s, want parked", is)
	}
	if is := c.d.Status().Condition; want > 0 && is != condition {
		c.t.Fatalf("converges: %s with %d of %d replicas on standby, want %s", is, standby, want, condition)
	}
	for _, r := range c.d.replicas {
		if r.memory == (hbm.Need{}) {
			c.t.Fatalf("converges: the memory of %s is unknown", r.spec.Name)
		}
	}
}
