package deployment

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

// states maps a state and a change to the next state. A change without an entry has no effect.
var states = map[State]map[change]State{
	Unknown:  {applied: Active, deleted: Removing, outdated: Fenced},
	Active:   {applied: Active, deleted: Removing, outdated: Fenced},
	Removing: {applied: Active, deleted: Removing, outdated: Fenced},
}

func (d *Deployment) shift(c change) {
	to, ok := states[d.state][c]
	if !ok {
		d.emit(Ignored{State: d.state})
		return
	}
	d.state = to
}

// State returns the state of the deployment.
func (d *Deployment) State() State { return d.state }
