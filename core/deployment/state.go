package deployment

import "troupe/core/table"

// State is the state of the deployment as a whole.
type State uint8

const (
	Unknown  State = iota // the spec is not known yet
	Active                // it is stored
	Removing              // it is deleted
	Fenced                // a later term has begun; all events are ignored
)

// String returns the name of the state.
func (s State) String() string { return [...]string{"unknown", "active", "removing", "fenced"}[s] }

// change is an event that changes the state of the deployment.
type change uint8

const (
	applied  change = iota // a spec was applied
	deleted                // the deployment was deleted
	outdated               // a later term has begun
)

// String returns the name of the change.
func (c change) String() string { return [...]string{"applied", "deleted", "outdated"}[c] }

// stateRows is the table of the deployment in doc.go.
var stateRows = table.New("deployment", []table.Row[State, change, condition, struct{}]{
	{From: []State{Unknown, Active, Removing}, On: applied, To: Active},
	{From: []State{Unknown, Active, Removing}, On: deleted, To: Removing},
	{From: []State{Unknown, Active, Removing}, On: outdated, To: Fenced},
})

func (d *Deployment) shift(c change) {
	r := stateRows.Find(d.state, c, nil)
	if r == nil {
		d.emit(Ignored{State: d.state})
		return
	}
	d.state = r.To
}

// State returns the state of the deployment.
func (d *Deployment) State() State { return d.state }
