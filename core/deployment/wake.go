package deployment

import (
	"time"

	"troupe/core/schedule"
	"troupe/core/table"
)

const (
	wakeTimeout = 3 * time.Second  // without a report, no request waits at a node
	wakeLinger  = 10 * time.Second // without waiting requests, until a failed wake is given up
)

// wake is the part of a deployment that wakes it.
type wake struct {
	state   WakeState
	waiting map[string]demand // by node, at its router
	wanted  time.Time         // when a request last waited, or the spec was applied
	known   uint64            // revision of the spec that the last router to report knows
	parked  bool              // it was parked when it was woken, and has not served since
}

// demand is a node's last report.
type demand struct {
	waiting, wakes int
	oldest         time.Time // arrival of the oldest request that may wake the deployment
	at             time.Time
}

// WakeState is whether the deployment changes its own number of replicas.
type WakeState uint8

const (
	Resting WakeState = iota
	Storing           // a StoreLevel is in flight
)

// String returns the name of the state.
func (s WakeState) String() string { return [...]string{"resting", "storing"}[s] }

// wakeEvent is an event of the table.
type wakeEvent uint8

const (
	wanted wakeEvent = iota // requests wait
	wakeTick
	levelStored // a StoreLevel has ended
)

// String returns the name of the event.
func (e wakeEvent) String() string { return [...]string{"wanted", "tick", "stored"}[e] }

type (
	wakeCondition = func(*Deployment, time.Time) bool
	wakeAction    = func(*Deployment)
)

var (
	resting = []WakeState{Resting}
	anyWake = []WakeState{Resting, Storing}
)

var (
	anyTime = table.Guard[wakeCondition]{}
	isKept  = table.Guard[wakeCondition]{Name: "reached a level known to the requests", Holds: (*Deployment).isKept}
	inVain  = table.Guard[wakeCondition]{Name: "was parked, failed, not wanted for 10 s", Holds: (*Deployment).inVain}
)

// wakeRows is the table of waking in doc.go.
var wakeRows = table.New("deployment wake", []table.Row[WakeState, wakeEvent, wakeCondition, wakeAction]{
	{resting, wanted, isKept, Storing, (*Deployment).awaken, "store the level active"},
	{anyWake, wanted, anyTime, table.Same, (*Deployment).wait, "—"},
	{resting, wakeTick, inVain, Storing, (*Deployment).giveUp, "store the level parked"},
	{anyWake, wakeTick, anyTime, table.Same, (*Deployment).wait, "—"},
	{[]WakeState{Storing}, levelStored, anyTime, Resting, (*Deployment).wait, "—"},
})

// fireWake applies the first row that fits an event.
func (d *Deployment) fireWake(on wakeEvent, now time.Time) {
	r := wakeRows.Find(d.wake.state, on, func(holds wakeCondition) bool { return holds(d, now) })
	if r == nil {
		d.emit(Ignored{State: d.state})
		return
	}
	r.Do(d)
	if r.To != table.Same {
		d.wake.state = r.To
	}
}

// onWanted handles the report of a router about the requests that wait there.
func (d *Deployment) onWanted(e Wanted, now time.Time) {
	before, wakes := d.wake.sum(), d.wake.wakes()
	d.wake.waiting[e.Node] = demand{e.Waiting, e.Wakes, now.Add(-e.Oldest), now}
	if e.Waiting > 0 {
		d.wake.wanted = now
	}
	if e.Wakes > 0 {
		d.wake.known = e.Stored
		d.fireWake(wanted, now)
	}
	if d.wake.sum() != before || d.wake.wakes() != wakes {
		d.announce()
	}
}

// forgetDemand forgets the reports that routers did not repeat.
func (d *Deployment) forgetDemand(now time.Time) {
	for node, last := range d.wake.waiting {
		if now.Sub(last.at) >= wakeTimeout {
			delete(d.wake.waiting, node)
		}
	}
}

// sum returns the number of requests that wait.
func (w *wake) sum() (n int) {
	for _, d := range w.waiting {
		n += d.waiting
	}
	return n
}

// wakes returns the number of requests that may wake the deployment.
func (w *wake) wakes() (n int) {
	for _, d := range w.waiting {
		n += d.wakes
	}
	return n
}

// oldest returns the age of the oldest request that may wake the deployment; 0: there is none.
func (w *wake) oldest(now time.Time) (age time.Duration) {
	for _, d := range w.waiting {
		if d.wakes > 0 {
			age = max(age, now.Sub(d.oldest))
		}
	}
	return age
}

// isKept reports whether an operator keeps all replicas from serving, of a deployment that may sleep,
// and whether the router that reported the requests knew that. So requests do not undo a command that
// came after them, or one that is under way: a switch of the GPU waits until the replicas are on standby.
func (d *Deployment) isKept(time.Time) bool {
	return d.state == Active && d.spec.held() && d.spec.Sleeps && d.spec.Rest != schedule.Stopped &&
		(d.spec.Level == Parked || d.wantedActive() == 0 && !d.suspending()) && d.wake.known >= d.stored
}

// suspending reports whether a replica serves, or finishes its sequences, and is to be on standby.
func (d *Deployment) suspending() bool {
	for name, r := range d.replicas {
		s := r.last().State
		if r.phase == Up && d.wantsStandby(name) && (s == ReplicaServing || s == ReplicaSuspending) {
			return true
		}
	}
	return false
}

// inVain reports whether the deployment was parked and woken but cannot serve, and no request waits any
// longer. A request wakes it again, and is refused for the reasons that apply then. The planner puts
// deployments to sleep, but does not park them.
func (d *Deployment) inVain(now time.Time) bool {
	awake := d.state == Active && d.spec.Rest == schedule.Awake && !d.spec.held()
	if !awake || !d.wake.parked || !d.spec.Sleeps || d.failure == nil || d.mayRecover() {
		return false
	}
	for _, r := range d.replicas {
		if r.phase == Starting || r.phase == Loading || r.phase == Up {
			return false
		}
	}
	return len(d.spec.Preemptions) == 0 && now.Sub(d.wake.wanted) >= wakeLinger // else an operator holds it
}

func (d *Deployment) awaken() {
	d.wake.parked = d.spec.Level == Parked
	d.emit(StoreLevel{Wakes: d.spec.Replicas > 0, Why: "requests wait for it"})
}

// giveUp parks the deployment again.
func (d *Deployment) giveUp() {
	d.emit(StoreLevel{Level: Parked,
		Why: "it cannot serve, and no request waits: " + d.failure.Detail})
}

// wait is the action of a row without an effect.
func (d *Deployment) wait() {}
