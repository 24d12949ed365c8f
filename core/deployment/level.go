package deployment

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

// Wanted returns the number of replicas that are to be there: none if the deployment is parked, and
// otherwise the requested number without those that are preempted.
func (s Spec) Wanted() int {
	if s.Level == Parked {
		return 0
	}
	return max(0, s.Replicas-len(s.Preemptions))
}

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

// standing returns the number of replicas that are on standby.
func (d *Deployment) standing() (n int) {
	for _, r := range d.replicas {
		if r.phase == Up && r.last().State == ReplicaStandby {
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
