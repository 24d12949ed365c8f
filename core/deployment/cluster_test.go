package deployment

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
	"troupe/core/schedule"
)

// cluster simulates the environment of a deployment: nodes with their replicas and GPUs, and the
// store. Commands wait in pending until the test answers or loses them.
type cluster struct {
	t         *rapid.T
	d         *Deployment
	now       time.Time
	nodes     map[string]*playedNode
	up        []string // the members, as the deployment knows them
	stored    bool
	spec      Spec
	files     string // in the model's folder, on all nodes
	pending   []Effect
	actors    int             // replicas started so far
	records   int             // in flight
	levels    int             // in flight
	fenced    bool            // a later term has begun
	preempted int             // preemptions so far
	parks     map[string]bool // replicas whose weights a preemption has parked

	revision int       // of the spec
	levelAt  int       // revision at the last StoreLevel
	wanted   time.Time // when a request last waited, or the spec was applied
	knows    bool      // the router that reported requests last knows the stored spec

	listed map[string]time.Time // node -> when it joined; zero: it has listed its replicas

	timers []preemptTimer // of preemptions, that have not fired

	departed map[string]time.Time // node that is no member -> since when

	failed map[assignmentID]bool // assignments whose replicas failed

	withdrawn map[*replica]bool // the deployment saw that their last assignment was withdrawn
}

type preemptTimer struct {
	at      time.Time
	replica string
}

// fireTimers fires the timers that are due.
func (c *cluster) fireTimers() {
	all := c.timers
	c.timers = nil
	for _, t := range all {
		if t.at.After(c.now) {
			c.timers = append(c.timers, t)
		} else {
			c.handle(PreemptTimer{t.replica})
		}
	}
}

type playedNode struct {
	id          int // of its process
	draining    bool
	quarantined bool
	broken      bool // no model loads
	replicas    map[string]*playedReplica
}

type playedReplica struct {
	spec  ReplicaSpec
	actor Ref
	state ReplicaState
	load  int

	standby bool // wanted level
}

// started returns the state of a replica that has started.
func (r *playedReplica) started() ReplicaState {
	if r.standby {
		return ReplicaStandby
	}
	return ReplicaServing
}

func newCluster(t *rapid.T) *cluster {
	c := &cluster{parks: make(map[string]bool),
		t: t, d: New("m", "a"), now: time.Unix(1000, 0), nodes: map[string]*playedNode{}, stored: true, files: "one",
		listed: map[string]time.Time{}, departed: map[string]time.Time{},
		failed: map[assignmentID]bool{}, withdrawn: map[*replica]bool{},
	}
	c.spec = Spec{Settings: Settings{Path: "p", MaxSequences: 1}, Replicas: 2, Revision: schedule.Revision{Deploy: 1}}
	for _, name := range []string{"a", "b", "c"} {
		c.nodes[name] = &playedNode{replicas: map[string]*playedReplica{}}
		c.up = append(c.up, name)
	}
	c.members()
	return c
}

// members reports the live members to the deployment.
func (c *cluster) members() {
	var all []Member
	for _, name := range c.up {
		n := c.nodes[name]
		all = append(all, Member{Name: name, ID: fmt.Sprint(n.id), Schedulable: !n.draining, GPUs: []string{"gpu-0"}})
	}
	for _, m := range all {
		if old := c.d.nodes[m.Name]; old == nil || old.ID != m.ID {
			c.listed[m.Name] = c.now
		}
	}
	maps.DeleteFunc(c.listed, func(name string, _ time.Time) bool { return !slices.Contains(c.up, name) })
	var departed []Departed
	for _, name := range []string{"a", "b", "c"} {
		if slices.Contains(c.up, name) {
			delete(c.departed, name)
		} else if _, known := c.departed[name]; !known {
			c.departed[name] = c.now
		}
		if at, gone := c.departed[name]; gone {
			departed = append(departed, Departed{name, at})
		}
	}
	c.handle(Members{all, departed})
}

func (c *cluster) apply() {
	if c.stored {
		c.revision++
		c.wanted, c.spec.Rest = c.now, restOf(c.spec)
		for name, r := range c.d.replicas {
			_, was := c.d.spec.Assigned[name]
			if _, is := c.spec.Assigned[name]; was != is {
				c.withdrawn[r] = was
			}
		}
		c.handle(Apply{c.spec, uint64(c.revision), hbm.Need{Fixed: need}})
	} else {
		c.handle(Remove{})
	}
}

func restOf(s Spec) schedule.Rest {
	switch {
	case s.Replicas > 0:
		return schedule.Awake
	case s.Sleeps:
		return schedule.Asleep
	}
	return schedule.Stopped
}

// names returns the replicas of a node in order.
func (n *playedNode) names() []string { return slices.Sorted(maps.Keys(n.replicas)) }

// find returns a replica by its actor; nil: it does not exist, or its node has left.
func (c *cluster) find(actor Ref) (*playedNode, *playedReplica) {
	for _, name := range c.up {
		n := c.nodes[name]
		for _, r := range n.replicas {
			if r.actor == actor {
				return n, r
			}
		}
	}
	return nil, nil
}

// answer answers a command as its receiver would.
func (c *cluster) answer(e Effect) {
	switch e := e.(type) {
	case AskSpec:
		c.apply()
	case ListReplicas:
		if n := c.alive(e.Node); n != nil {
			list := ReplicaList{Node: e.Node}
			for _, name := range n.names() {
				r := n.replicas[name]
				list.Replicas = append(list.Replicas, Running{name, r.spec, r.actor})
			}
			c.listed[e.Node] = time.Time{}
			c.handle(list)
		}
	case AskGPU:
		c.gpu(e.At)
	case Inspect:
		c.handle(Inspected{Path: e.Path, Need: hbm.Need{Fixed: need}})
	case StartReplica:
		c.start(e.Spec)
	case AskReplica:
		c.report(e.Actor)
	case ConfirmRevision:
		c.confirm(e)
	case Record:
		c.records--
		if r := &c.spec.Revision; r.Digest == "" && r.Deploy == e.Deploy {
			r.Digest = e.Revision
			c.apply()
		}
		c.handle(Recorded{})
	case StoreLevel:
		c.levels--
		if c.stored && c.revision == c.levelAt { // the store compares the revision
			c.spec.Level, c.spec.Levels = e.Level, nil
			c.apply()
		}
		c.handle(LevelStored{})
	case DrainReplica:
		c.drain(e)
	case SetLevel:
		c.setLevel(e)
	case MigrateSequences:
		if _, r := c.find(e.Actor); r != nil {
			r.load = 0
		}
		c.handle(Migrated{e.Replica, e.Request})
	case SaveSequences:
		if n := c.alive(e.Node); n != nil && n.replicas[e.Replica] != nil {
			n.replicas[e.Replica].load = 0
			c.handle(Saved{Replica: e.Replica})
		}
	case PreemptAfter:
		c.timers = append(c.timers, preemptTimer{c.now.Add(e.After), e.Replica})
	case Watch:
		if _, r := c.find(e.Actor); r == nil { // it has ended already
			c.handle(Exited{e.Actor, "not found"})
		}
	case StopReplica:
		if n := c.alive(e.At.Node); n != nil {
			r := n.replicas[e.Replica]
			delete(n.replicas, e.Replica)
			c.handle(Freed{e.Request})
			if r != nil {
				c.handle(Exited{r.actor, "stopped"})
			}
		}
	}
}

// receiver returns the node whose replicas group receives a command; empty: none.
func receiver(e Effect) string {
	switch e := e.(type) {
	case ListReplicas:
		return e.Node
	case StartReplica:
		return e.Spec.At.Node
	case DrainReplica:
		return e.Node
	case SetLevel:
		return e.Node
	case SaveSequences:
		return e.Node
	case StopReplica:
		return e.At.Node
	}
	return ""
}

func (c *cluster) alive(node string) *playedNode {
	if slices.Contains(c.up, node) {
		return c.nodes[node]
	}
	return nil
}

func (c *cluster) gpu(at Location) {
	if n := c.alive(at.Node); n != nil {
		c.handle(GPUReport{at, n.quarantined})
	}
}

func (c *cluster) start(spec ReplicaSpec) {
	n := c.alive(spec.At.Node)
	if n == nil {
		return
	}
	r := n.replicas[spec.Name]
	if r == nil {
		c.actors++
		r = &playedReplica{spec: spec, actor: Ref{ID: fmt.Sprint(spec.Name, "#", c.actors)}, state: ReplicaLoading,
			standby: spec.Standby}
		n.replicas[spec.Name] = r
	}
	c.handle(Accepted{spec.Name, r.actor})
}

// report sends a replica's report. A loading replica has loaded its files.
func (c *cluster) report(actor Ref) {
	n, r := c.find(actor)
	if r == nil {
		return
	}
	e := Reported{Report: Report{Replica: r.spec.Name, Actor: r.actor, GPU: "gpu-0", Load: r.load}}
	wanted := r.spec.Revision.Digest
	switch {
	case r.state == ReplicaLoading && n.broken:
		r.state, e.Failure = ReplicaFailed, &Failure{Reason: LoadFailed, Detail: "broken"}
	case r.state == ReplicaLoading && wanted == c.files:
		r.state = r.started()
	case r.state == ReplicaSuspending && r.load == 0:
		r.state = ReplicaStandby
	case r.state == ReplicaLoading && wanted != "":
		r.state, e.Report.Found, e.Failure = ReplicaFailed, c.files, &Failure{Reason: FilesDiffer}
	case r.state == ReplicaLoading: // waits for ConfirmRevision
		r.spec.Revision.Digest, wanted = "", c.files
	}
	if e.Report.State = r.state; r.state != ReplicaFailed {
		e.Report.Revision = wanted
	}
	c.handle(e)
}

func (c *cluster) confirm(e ConfirmRevision) {
	if _, r := c.find(e.Actor); r != nil && r.state == ReplicaLoading {
		r.state, r.spec.Revision.Digest = r.started(), e.Digest
		c.report(e.Actor)
	}
}

// setLevel changes the level of a replica. One that suspends is on standby when it reports next
// without sequences.
func (c *cluster) setLevel(e SetLevel) {
	n := c.alive(e.Node)
	if n == nil || n.replicas[e.Replica] == nil {
		return
	}
	r := n.replicas[e.Replica]
	r.standby = e.Standby
	switch {
	case e.Standby && r.state == ReplicaServing:
		r.state = ReplicaSuspending
		c.report(r.actor)
	case !e.Standby && (r.state == ReplicaSuspending || r.state == ReplicaStandby):
		r.state = ReplicaServing
		c.report(r.actor)
	}
}

func (c *cluster) drain(e DrainReplica) {
	n := c.alive(e.Node)
	if n == nil || n.replicas[e.Replica] == nil {
		return
	}
	r := n.replicas[e.Replica]
	r.state = ReplicaDraining
	if r.load == 0 {
		c.handle(Drained{Replica: e.Replica})
	} else {
		c.report(r.actor)
	}
}
