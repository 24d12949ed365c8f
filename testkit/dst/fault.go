package dst

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"troupe/cluster/members"
	"troupe/cluster/store"
)

// FaultKind is a kind of fault, or of operator action.
type FaultKind string

// Kinds of faults.
const (
	CrashActor FaultKind = "crash-actor"  // an actor of the kind Actor panics on its next message
	CrashInJob FaultKind = "crash-in-job" // an actor of the kind Actor panics while its Count-th next job runs
	CrashNode  FaultKind = "crash-node"   // the node crashes, loses its memory, and starts again after For
	Cut        FaultKind = "cut"          // Node cannot reach Peer
	Isolate    FaultKind = "isolate"      // Node reaches neither other nodes nor the store
	Outage     FaultKind = "outage"       // Node cannot reach the store
	LoseAnswer FaultKind = "lose-answer"  // the store applies the next write of Node, and the answer is lost
	SlowStore  FaultKind = "slow-store"   // what Node sends to the store and back takes Count ms longer
	StallStore FaultKind = "stall-store"  // the store answers no request
	LoseBucket FaultKind = "lose-bucket"  // Bucket is deleted
	RollBack   FaultKind = "roll-back"    // Bucket loses its last Count revisions
	Pause      FaultKind = "pause"        // the actors of Node handle no messages
	Migrate    FaultKind = "migrate"      // an operator moves the sequences of a replica
	Scale      FaultKind = "scale"        // an operator sets the number of replicas to Count
	LoseDevice FaultKind = "lose-device"  // the node's device does not answer
	Sleep      FaultKind = "sleep"        // an operator puts a deployment to sleep; it stays asleep while idle
	Delete     FaultKind = "delete"       // an operator deletes a deployment, and creates it again after For
	Redeploy   FaultKind = "redeploy"     // an operator deploys other files
	Offload    FaultKind = "offload"      // an operator offloads the KV blocks of a replica
	Flush      FaultKind = "flush"        // an operator drops the unused KV blocks of a replica
	Restart    FaultKind = "restart"      // an operator restarts a replica
	Evict      FaultKind = "evict"        // an operator frees the unused weights on the devices of Node
)

// Fault is a fault or an operator action, at a time after the start of the load.
type Fault struct {
	At    time.Duration
	Kind  FaultKind
	Node  string
	Peer  string        // Cut
	Model string        // model that an operator acts on
	Actor string        // CrashActor, HoldActor
	After bool          // CrashActor: panic after handling the message instead of before
	For   time.Duration // duration of the fault
	Count int           // Scale, SlowStore, RollBack, HoldActor

	Message string // HoldActor: name of its type, with its package if that is not messages: "*transfer.CloseSink"

	Adapter string    // adapter of Model that an operator acts on, or whose files are broken
	State   FileState // BreakFiles
	Disk    DiskState // BreakDisk
	Tier    string    // FlushTier
	Bucket  string    // LoseBucket, RollBack
	Step    string    // of the planner that leads, which the fault waits for; empty: none

	Deadline time.Duration // Preempt
	Fate     WeightsFate   // Preempt
	Force    bool          // Preempt
}

func (f Fault) String() string {
	s := fmt.Sprintf("%v %s %s", f.At, f.Kind, f.Node)
	if f.Step != "" {
		s = fmt.Sprintf("%v %s when the planner has %s", f.At, f.Kind, f.Step)
	}
	if f.Peer != "" {
		s += " -> " + f.Peer
	}
	if f.Actor != "" {
		s += " " + f.Actor
		if f.After {
			s += " after"
		}
	}
	if f.Message != "" {
		s += " before " + f.Message
	}
	if f.For > 0 {
		s += " for " + f.For.String()
	}
	if f.Model != "" {
		s += " " + f.Model
	}
	if f.Adapter != "" {
		s += ":" + f.Adapter
	}
	if f.State != "" {
		s += " " + string(f.State)
	}
	if f.Disk != "" {
		s += " " + string(f.Disk)
	}
	if f.Tier != "" {
		s += " " + f.Tier
	}
	if f.Bucket != "" {
		s += " " + f.Bucket
	}
	if f.Kind == PinPrefix || f.Kind == RestorePrefix {
		s += fmt.Sprintf(" of prompt %d", f.Count)
	}
	switch f.Kind {
	case FailSteps, SlowDevice, FailLoads, FailReads, FailCaptures, DamageLoads, CrashInJob:
		s += fmt.Sprintf(" (%d)", f.Count)
	case SlowStore, RollBack, RestoreOld:
		s += fmt.Sprintf(" by %d", f.Count)
	}
	if f.Kind == DamageDisk {
		s += fmt.Sprintf(" in %d bits", f.Count)
	}
	if f.Kind == Scale {
		s += fmt.Sprintf(" to %d", f.Count)
	}
	if (f.Kind == Standby || f.Kind == Park) && f.Count > 0 {
		s += fmt.Sprintf("-%d", f.Count-1)
	}
	if f.Kind == Preempt {
		s += fmt.Sprintf(" number %d within %v %s, forced: %t", f.Count, f.Deadline, f.Fate, f.Force)
	}
	return s
}

// actorKinds are the kinds of actors that crash.
var actorKinds = []string{"replica", "replica", "engine", "copier", "gpu", "hbm", "tier", "router", "deployment",
	"deployments", "replicas", "session", "adapters", "slot", "gateway", "usage", "planner", "hostcache", "transfers"}

// buckets are the buckets that are lost.
var buckets = []string{members.Bucket, store.Bucket}

// faultKinds are the kinds of faults of a seed. Those that occur more than once are more frequent.
var faultKinds = []FaultKind{
	CrashActor, CrashActor, CrashActor, CrashActor, CrashActor, CrashNode, Cut, Isolate, Outage,
	LoseAnswer, LoseAnswer, SlowStore, StallStore, LoseBucket, RollBack,
	Pause, Migrate, Migrate, Migrate, Scale, Scale, LoseDevice, Delete, Redeploy, Offload, Flush,
	Restart, BreakFiles, BreakFiles, Register, DeleteAdapter, PinAdapter, BreakDisk, DamageDisk,
	PinPrefix, PinPrefix, RestorePrefix, FlushTier, HangStep, StickStep, HangReset, FailSteps,
	SlowDevice, FailAllocs, LoseInStep, HangLoad, FailLoads, StopNode,
}

// AllKinds returns the kinds of faults of a seed, and those that only scenarios inject.
func AllKinds() []FaultKind {
	return slices.Concat(faultKinds, []FaultKind{
		CrashInJob, Sleep, Sleep, Evict, Preempt, Preempt, Standby, Standby, Switch, Park, Park, DamageImages,
		CorruptDevice, QuarantineDevice, ReleaseDevice, FailTests, LoseLease, LoseLease, PausePlanner, Drain,
		RestoreOld, AskPlan,
	})
}

// calmKinds are commands of operators because of which nothing may fail.
var calmKinds = []FaultKind{Migrate, Migrate, Migrate, Migrate, Offload, Flush, Redeploy, FlushTier, RestorePrefix,
	Drain, AskPlan}

// plan returns the faults of the given kinds that a seed determines. Actors of the given kinds crash.
func plan(rng *rand.Rand, o Options, nodes []string, within time.Duration) []Fault {
	kinds, actors := o.Kinds, o.Actors
	switch {
	case kinds == nil && o.Calm:
		kinds = calmKinds
	case kinds == nil:
		kinds = faultKinds
	}
	if actors == nil {
		actors = actorKinds
	}
	var all []Fault
	for range o.Count {
		f := Fault{At: time.Duration(rng.Int64N(int64(within))).Truncate(time.Millisecond),
			Kind: kinds[rng.IntN(len(kinds))], Node: nodes[rng.IntN(len(nodes))]}
		span := func(least, most time.Duration) time.Duration {
			return (least + time.Duration(rng.Int64N(int64(most-least)))).Truncate(time.Millisecond)
		}
		switch f.Kind {
		case Migrate, Scale, Sleep, Delete, Redeploy, Offload, Flush, Restart:
			f.Model = models[rng.IntN(len(models))].name
		}
		switch f.Kind {
		case LoseDevice:
			f.For = span(2*time.Second, 20*time.Second)
		case Delete:
			f.For = span(time.Second, 5*time.Second)
		case CrashActor:
			f.Actor, f.After = actors[rng.IntN(len(actors))], rng.IntN(2) == 0
		case CrashInJob:
			f.Actor, f.Count = actors[rng.IntN(len(actors))], 1+rng.IntN(3)
		case CrashNode, StopNode:
			f.For = span(time.Second, 10*time.Second)
		case Cut:
			for f.Peer = f.Node; f.Peer == f.Node; {
				f.Peer = nodes[rng.IntN(len(nodes))]
			}
			f.For = span(100*time.Millisecond, 5*time.Second)
		case Isolate, Outage, StallStore:
			f.For = span(200*time.Millisecond, 6*time.Second)
		case SlowStore:
			f.For, f.Count = span(200*time.Millisecond, 6*time.Second), 20+rng.IntN(600)
		case LoseBucket, RollBack:
			f.Bucket, f.Count = buckets[rng.IntN(len(buckets))], 1+rng.IntN(4)
		case Pause:
			f.For = span(100*time.Millisecond, 3*time.Second)
		case Scale:
			f.Count = 1 + rng.IntN(3)
		}
		f.drawAdapters(rng, span)
		f.drawDisks(rng, span)
		f.drawPrefixes(rng, span)
		f.drawEngines(rng, span)
		f.drawDevices(rng, span)
		f.drawLevels(rng, span)
		f.drawPreempt(rng, span)
		f.drawSources(rng, span)
		f.drawPlanner(rng, o, span)
		all = append(all, f)
	}
	if o.Calm && o.Count == 0 {
		return nil
	}
	for i, node := range nodes { // one for each node, without a draw
		at := within * time.Duration(i+1) / time.Duration(len(nodes)+1)
		all = append(all, Fault{At: at.Truncate(time.Millisecond), Kind: Evict, Node: node})
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return int(a.At - b.At) })
	return all
}
