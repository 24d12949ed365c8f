package deployment

// Phase is the phase of a replica's life.
type Phase uint8

const (
	Absent   Phase = iota // does not exist yet, or no longer exists
	Placing               // waits for a GPU
	Starting              // has a GPU; StartReplica is not answered yet
	Loading               // loads the model
	Up                    // serves, or will serve again
	Draining              // finishes or migrates its sequences
	Stopping              // its memory is being freed
)

// String returns the name of the phase.
func (p Phase) String() string {
	return [...]string{"absent", "placing", "starting", "loading", "up", "draining", "stopping"}[p]
}

// Trigger is an event of one replica.
type Trigger uint8

const (
	added          Trigger = iota // a replica is missing
	moveStarted                   // a substitute is started on a better GPU
	adopted                       // a node reports a replica of an earlier term or incarnation
	placed                        // a GPU was chosen
	notPlaced                     // no GPU has room, or the model's size is unknown
	accepted                      // the node has started it
	reported                      // it reported its status
	reportServing                 // it reported that it serves
	reportDraining                // it reported that it drains
	failed                        // it failed to load, found other files, or lost its device
	retired                       // core/schedule removes it
	drained                       // its sequences are gone, or the drain timed out
	exited                        // it crashed too often
	unreachable                   // the connection to its node broke
	nodeLost                      // its node left the cluster
	freed                         // its memory is free
)

// String returns the name of the trigger.
func (t Trigger) String() string {
	return [...]string{
		"added", "moveStarted", "adopted", "placed", "notPlaced", "accepted", "reported", "reportServing",
		"reportDraining", "failed", "retired", "drained", "exited", "unreachable", "nodeLost", "freed",
	}[t]
}

// guard is a condition of a transition; see doc.go.
type guard uint8

const (
	always guard = iota
	restartable
	deviceLost
)

// String returns the guard's name in the table of doc.go.
func (g guard) String() string { return [...]string{"-", "restartable", "deviceLost"}[g] }

// phases is a set of phases.
type phases uint8

func in(all ...Phase) (set phases) {
	for _, p := range all {
		set |= 1 << p
	}
	return set
}

func (s phases) has(p Phase) bool { return s&(1<<p) != 0 }

// same as a transition's target keeps the phase.
const same = Phase(255)

// transition is a row of the table.
type transition struct {
	from phases
	on   Trigger
	when guard
	to   Phase
}

// table lists all transitions of a replica. Of the rows with the same phase and trigger, the first
// whose guard holds applies.
var table = []transition{
	{in(Absent), added, always, Placing},
	{in(Absent), moveStarted, always, Starting},
	{in(Absent), adopted, always, Loading},
	{in(Placing), placed, always, Starting},
	{in(Placing), notPlaced, always, Absent},
	{in(Placing), retired, always, Absent},
	{in(Starting), accepted, always, Loading},
	{in(Starting, Loading, Up, Draining, Stopping), reported, always, same},
	{in(Starting, Loading), reportServing, always, Up},
	{in(Up, Draining, Stopping), reportServing, always, same},
	{in(Starting, Loading, Up), reportDraining, always, Draining},
	{in(Draining, Stopping), reportDraining, always, same},
	{in(Starting, Loading), failed, always, Stopping},
	{in(Up), failed, deviceLost, Stopping},
	{in(Up, Draining, Stopping), failed, always, same},
	{in(Starting, Loading, Up), retired, always, Draining},
	{in(Draining), drained, always, Stopping},
	{in(Stopping), drained, always, same},
	{in(Starting, Loading, Up, Draining), exited, restartable, Absent},
	{in(Starting, Loading, Up, Draining), exited, always, Stopping},
	{in(Stopping), exited, always, same},
	{in(Starting, Loading, Up, Draining), unreachable, always, Absent},
	{in(Stopping), unreachable, always, same},
	{in(Starting, Loading, Up, Draining, Stopping), nodeLost, always, Absent},
	{in(Stopping), freed, always, Absent},
}

// next returns the next phase, or false if the table has no transition. holds is the guard that
// holds in addition to always.
func next(from Phase, on Trigger, holds guard) (Phase, bool) {
	for _, t := range table {
		switch {
		case !t.from.has(from) || t.on != on || t.when != always && t.when != holds:
		case t.to == same:
			return from, true
		default:
			return t.to, true
		}
	}
	return from, false
}
