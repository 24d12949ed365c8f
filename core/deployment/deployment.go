package deployment

import (
	"maps"
	"slices"
	"time"

	"troupe/core/hbm"
)

const (
	drainTimeout     = 30 * time.Second
	finishTimeout    = 10 * time.Minute // to drain a replica whose sequences no other replica can resume
	nodeReplyTimeout = 3 * time.Second  // for a node's list of replicas, and for their first reports
	crashWindow      = 30 * time.Second // in which a replica may exit once on a GPU
)

// Deployment keeps the requested number of replicas of one model serving.
type Deployment struct {
	name    string
	node    string // this node, which runs the deployment
	state   State
	spec    Spec
	stored  uint64    // revision of the stored spec
	sized   bool      // need is known
	need    hbm.Need  // of a replica
	effects []Effect  // of the current event
	now     time.Time // of the last event

	nodes         map[string]*member     // live members by name
	replicas      map[string]*replica    // by name
	orphans       map[orphan]Location    // replicas to stop, whose names were reused
	lastPlacement map[string]Location    // exited replica -> GPU that still has its lease
	lastExit      map[string]replicaExit // replica -> its last exit
	quarantined   map[Location]bool      // by GPU, as last reported
	departed      map[string]time.Time   // node that is away -> when it was last seen
	failure       *Failure               // of the last attempt; nil after a success
	unplaced      bool                   // the planner has refused replicas since the last one started
	preemptions   []*preemption          // in the order in which they were first seen
	recording     bool                   // a Record is in flight
	wasReady      bool                   // at the last Announce
	attempts      map[string]attempt     // replica -> the last attempt to start it as assigned that failed
	absentSince   map[string]time.Time   // replica that is assigned and was there -> since when it is not
	hasPlan       bool                   // a plan was applied
	planReplicas  int                    // of the last plan
	shrinks       bool                   // the last plan has fewer replicas than the one before
	refusedAt     time.Time              // of the planner's last PlacementRefused
	wake          wake
}

// orphan is a replica that runs on a node where it should not run.
type orphan struct{ node, replica string }

// New returns a deployment without a spec or replicas. Its first event should be Members.
func New(name, node string) *Deployment {
	return &Deployment{
		name: name, node: node,
		nodes: make(map[string]*member), replicas: make(map[string]*replica), orphans: make(map[orphan]Location),
		lastPlacement: make(map[string]Location), lastExit: make(map[string]replicaExit),
		quarantined: make(map[Location]bool), departed: make(map[string]time.Time), attempts: make(map[string]attempt),
		absentSince: make(map[string]time.Time), wake: wake{waiting: make(map[string]demand)},
	}
}

// onTick repeats the commands that have not been answered.
func (d *Deployment) onTick(now time.Time) {
	if d.state == Unknown {
		d.emit(AskSpec{})
	}
	for _, name := range sorted(d.nodes) {
		d.queryNode(name)
	}
	for _, name := range sorted(d.replicas) {
		d.command(d.replicas[name], now)
		d.setLevel(d.replicas[name])
	}
	d.stopOrphans()
	d.pollGPUs()
	d.expireRefusal(now)
	d.reconcile(now)
	d.inspect()
	d.forgetDemand(now)
	d.fireWake(wakeTick, now)
}

func (d *Deployment) onApply(e Apply, now time.Time) {
	d.sized = d.sized && e.Spec.Path == d.spec.Path && e.Spec.Engine.Kind == d.spec.Engine.Kind
	if !d.isPlan(e.Spec) { // a change by an operator
		d.failure, d.unplaced = nil, false
		d.wake.wanted = now
	}
	last := d.spec
	d.comparePlan(e.Spec)
	d.spec, d.stored, d.need = e.Spec, e.Stored, e.Need
	d.shift(applied)
	d.beginPlan(last)
	for _, name := range sorted(d.replicas) {
		d.checkRevision(d.replicas[name], now)
		d.markDrop(d.replicas[name])
		d.setLevel(d.replicas[name])
	}
	d.inspect()
	d.reconcile(now)
}

func (d *Deployment) onRemove(e Remove, now time.Time) {
	d.spec.Drop = d.spec.Drop || e.Drop
	d.shift(deleted)
	d.reconcile(now)
}

func (d *Deployment) onStaleTerm(e StaleTerm) {
	d.shift(outdated)
	d.emit(FencedOff(e))
}

func (d *Deployment) onInspected(e Inspected, now time.Time) {
	switch {
	case e.Path != d.spec.Path || e.Engine != d.spec.Engine.Kind: // of an earlier spec
	case e.Fault != "" && !d.lacksReplicas():
		// No replica is missing.
	case e.Fault != "": // the next Tick retries
		d.fail(Failure{Reason: LoadFailed, Detail: "node " + d.node + ": " + e.Fault})
		d.announce()
	default:
		d.need, d.sized = e.Need, true
		d.reconcile(now)
	}
}

// Actors returns the actors of all replicas.
func (d *Deployment) Actors() (all []Ref) {
	for _, name := range sorted(d.replicas) {
		if r := d.replicas[name]; r.actor != (Ref{}) {
			all = append(all, r.actor)
		}
	}
	return all
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
