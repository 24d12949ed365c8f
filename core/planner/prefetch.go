package planner

import (
	"strings"
	"time"

	"troupe/core/schedule"
	"troupe/core/units"
)

// fetchAgain is the time after which a replica that still lacks the same adapters learns of them again.
const fetchAgain = time.Minute

// fetched are the adapters that a replica was last asked to fetch ahead.
type fetched struct {
	keys string
	at   time.Time
}

// prefetch decides which adapters replicas fetch ahead, as a step of the round.
func (m *Machine) prefetch(now time.Time) {
	r := &m.round
	adapters := 0
	for i := range r.seen.Deployments {
		for _, f := range r.seen.Deployments[i].fetches() {
			if last := m.fetched[f.Replica]; last.keys == keysOf(f) && now.Sub(last.at) < fetchAgain {
				continue
			}
			r.fetches = append(r.fetches, Prefetch{r.seen.Deployments[i].Model.Name, f})
			adapters += len(f.Adapters)
		}
	}
	m.end("prefetch", now, units.Count(adapters, "adapter")+" for "+units.Count(len(r.fetches), "replica"))
}

// fetches returns the adapters that the replicas of a deployment lack.
func (d *Deployment) fetches() []schedule.Fetch {
	if d.Revision == 0 {
		return nil
	}
	return schedule.Prefetch(d.Adapters, d.Pools)
}

// fetch tells the replicas which adapters to fetch.
func (m *Machine) fetch(now time.Time) {
	for _, f := range m.round.fetches {
		m.fetched[f.Replica] = fetched{keysOf(f.Fetch), now}
		m.emit(f)
	}
	there := make(map[string]bool)
	for i := range m.round.seen.Deployments {
		for _, p := range m.round.seen.Deployments[i].Pools {
			there[p.Replica] = true
		}
	}
	for name := range m.fetched {
		if !there[name] {
			delete(m.fetched, name)
		}
	}
}

func keysOf(f schedule.Fetch) string {
	var keys []string
	for _, a := range f.Adapters {
		keys = append(keys, a.Key)
	}
	return strings.Join(keys, " ")
}
