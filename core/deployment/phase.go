package deployment

import "troupe/core/table"

// Phase is the phase of a replica's life.
type Phase uint8

const (
	Absent   Phase = iota // does not exist yet, or no longer exists
	Starting              // has a GPU; StartReplica is not answered yet
	Loading               // loads the model
	Up                    // serves or is on standby, or will be again
	Draining              // finishes or migrates its sequences
	Stopping              // its memory is being freed
)

// String returns the name of the phase.
func (p Phase) String() string {
	return [...]string{"absent", "starting", "loading", "up", "draining", "stopping"}[p]
}

// Trigger is an event of one replica.
type Trigger uint8

const (
	assigned       Trigger = iota // the planner assigned it to a GPU
	adopted                       // a node reports a replica of an earlier term or incarnation
	accepted                      // the node has started it
	reported                      // it reported its status
	reportUp                      // it reported that it serves, or is on standby or on the way there
	reportDraining                // it reported that it drains
	failed                        // it failed to load, found other files, lost its device, or is faulty for good
	retired                       // it is no longer assigned, or an operator has taken it away
	drained                       // its sequences are gone, or the drain timed out
	exited                        // it crashed too often
	unreachable                   // the connection to its node broke
	nodeLost                      // its node left the cluster
	freed                         // its memory is free
)

// String returns the name of the trigger.
func (t Trigger) String() string {
	return [...]string{
		"assigned", "adopted", "accepted", "reported", "reportUp", "reportDraining", "failed", "retired", "drained",
		"exited", "unreachable", "nodeLost", "freed",
	}[t]
}

// condition is what the caller knows about an event besides its trigger.
type condition uint8

const (
	none condition = iota
	restartable
	deviceLost
	faulty
)

// row is one transition of a replica. A row that enters another phase sends the command of that
// phase.
type row = table.Row[Phase, Trigger, condition, struct{}]

func on(t Trigger, from []Phase, to Phase) row { return row{On: t, From: from, To: to} }

// when returns the row under a condition.
func when(c condition, name string, r row) row {
	r.When = table.Guard[condition]{Name: name, Holds: c}
	return r
}

const same = table.Same

var (
	absent   = []Phase{Absent}
	early    = []Phase{Starting, Loading}
	active   = []Phase{Starting, Loading, Up}
	running  = []Phase{Starting, Loading, Up, Draining}
	known    = []Phase{Starting, Loading, Up, Draining, Stopping}
	later    = []Phase{Up, Draining, Stopping}
	ending   = []Phase{Draining, Stopping}
	stopping = []Phase{Stopping}
)

// rows is the table of replicas in doc.go. The first row that fits applies.
var rows = table.New("deployment replica", []row{
	on(assigned, absent, Starting),
	on(adopted, absent, Loading),
	on(accepted, []Phase{Starting}, Loading),
	on(reported, known, same),
	on(reportUp, early, Up),
	on(reportUp, later, same),
	on(reportDraining, active, Draining),
	on(reportDraining, ending, same),
	on(failed, early, Stopping),
	when(deviceLost, "device lost", on(failed, []Phase{Up}, Stopping)),
	when(faulty, "faulty", on(failed, []Phase{Up, Draining}, Stopping)),
	on(failed, later, same),
	on(retired, active, Draining),
	on(drained, []Phase{Draining}, Stopping),
	on(drained, stopping, same),
	when(restartable, "restartable", on(exited, active, Absent)),
	on(exited, running, Stopping),
	on(exited, stopping, same),
	on(unreachable, running, Absent),
	on(unreachable, stopping, same),
	on(nodeLost, known, Absent),
	on(freed, stopping, Absent),
})

// next returns the next phase, or false if the table has no transition.
func next(from Phase, on Trigger, c condition) (Phase, bool) {
	r := rows.Find(from, on, func(holds condition) bool { return holds == c })
	if r == nil || r.To == same {
		return from, r != nil
	}
	return r.To, true
}
