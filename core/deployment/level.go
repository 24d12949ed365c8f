package deployment

import (
	"slices"
	"time"
)

// Level is a wanted level.
type Level uint8

// Levels, which core/residency explains.
const (
	NoLevel Level = iota // none is set: active
	Cold
	Parked
	OnStandby
	OnActive
)

// String returns the name of the level.
func (l Level) String() string { return [...]string{"none", "cold", "parked", "standby", "active"}[l] }

// Wanted returns the number of replicas that are to be there: none if the deployment is parked, and
// otherwise the requested number without those that are preempted or parked one by one.
func (s Spec) Wanted() int {
	if s.Level == Parked {
		return 0
	}
	return max(0, s.Replicas-len(s.Preemptions)-len(s.parked()))
}

// parked returns the names of the replicas that are parked one by one.
func (s Spec) parked() (names []string) {
	for _, name := range sorted(s.Levels) {
		if s.Levels[name] == Parked && s.Level != Parked {
			names = append(names, name)
		}
	}
	return names
}

// allParked reports whether no replica is to be there because an operator has parked the deployment, or
// single replicas.
func (s Spec) allParked() bool {
	return s.Level == Parked || s.Wanted() == 0 && s.Replicas > 0 && len(s.parked()) > 0
}

// parkReplicas retires the replicas that are parked one by one, and stops those that have exited and
// whose memory remains.
func (d *Deployment) parkReplicas(now time.Time) {
	if d.state != Active {
		return
	}
	for _, name := range d.spec.parked() {
		if at, left := d.lastPlacement[name]; left && d.nodes[at.Node] != nil {
			d.orphans[orphan{at.Node, name}] = at
		}
		delete(d.lastPlacement, name)
		r := d.replicas[name]
		if r == nil || r.preemption != nil {
			continue
		}
		r.park = true
		if r.phase > Up {
			continue
		}
		r.drainCause, r.surplus = "it is parked", true
		d.emit(Retiring{name, r.drainCause})
		d.fire(r, retired, none, now)
	}
}

// takenAway reports whether a name belongs to a replica that an operator has preempted or parked.
func (d *Deployment) takenAway(name string) bool {
	return d.reservedByPreemption(name) || slices.Contains(d.spec.parked(), name)
}

// held reports whether an operator has set a level.
func (s Spec) held() bool { return s.Level != NoLevel || len(s.Levels) > 0 }

// levelOf returns the wanted level of a replica.
func (s Spec) levelOf(name string) Level {
	if l := s.Levels[name]; l != NoLevel {
		return l
	}
	return s.Level
}

// wantsStandby reports whether a replica is to be on standby.
func (d *Deployment) wantsStandby(name string) bool { return d.spec.levelOf(name) == OnStandby }

// wantedActive returns the number of replicas that are to serve. Replicas that do not exist yet will
// have the level of the deployment.
func (d *Deployment) wantedActive() int {
	active, standby := 0, 0
	for name, r := range d.replicas {
		switch {
		case r.phase > Up:
		case d.wantsStandby(name):
			standby++
		default:
			active++
		}
	}
	if d.spec.Level == OnStandby {
		return min(active, d.spec.Wanted())
	}
	return max(0, d.spec.Wanted()-standby)
}

// standing reports whether the replica is on standby.
func (r *replica) standing() bool { return r.phase == Up && r.last().State == ReplicaStandby }

// standing returns the number of replicas that are on standby.
func (d *Deployment) standing() (n int) {
	for _, r := range d.replicas {
		if r.standing() {
			n++
		}
	}
	return n
}

// setLevel tells a replica its wanted level, unless it has reported it. While it goes to standby, its
// sequences migrate to another replica.
func (d *Deployment) setLevel(r *replica) {
	is, want := r.spec.Standby, d.wantsStandby(r.spec.Name)
	switch r.phase {
	case Loading: // it will have the level of its spec
	case Up:
		state := r.last().State
		is = state == ReplicaSuspending || state == ReplicaStandby
		if want && state == ReplicaSuspending && r.last().Load > 0 {
			d.migrate(r, "goes to standby")
		}
	default:
		return
	}
	if is != want {
		d.emit(SetLevel{r.spec.Name, r.spec.At.Node, want})
	}
}
