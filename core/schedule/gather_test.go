package schedule

import (
	"slices"
	"testing"
	"time"

	"troupe/core/hbm"
)

// slot is a device with room for one model. A load takes loadTime, a request no time.
type slot struct {
	pool
	waiting map[string][]time.Time // arrivals of requests that wait, by model
	served  []string               // models of requests, in order
	waited  map[string]time.Duration
	loads   int
	refused []string // models whose requests do not wait
}

const loadTime = 4 * time.Second

func newSlot(wakeWait time.Duration, models ...string) *slot {
	s := &slot{pool: pool{Snapshot: Snapshot{At: began, Devices: []Device{{Name: "a/gpu-0", Node: "a",
		Memory: 40 * gib, Utilization: -1}}}},
		waiting: make(map[string][]time.Time), waited: make(map[string]time.Duration)}
	for _, name := range models {
		s.Models = append(s.Models, Model{Name: name, Priority: Standard, Max: 1, Sized: true, Weights: 30 * gib,
			Need: hbm.Need{Fixed: gib, Min: gib, MinAlone: gib}, IdleAfter: time.Hour, WakeWait: wakeWait,
			Loads: LoadTimes{Disk: loadTime}, Demand: Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1}})
	}
	return s
}

// second lets a second pass, with a plan.
func (s *slot) second(arrivals ...string) {
	for _, name := range arrivals {
		s.waiting[name] = append(s.waiting[name], s.At)
		s.model(name).Demand.Last = s.At
	}
	for i := range s.Replicas {
		r := &s.Replicas[i]
		if r.Progress == Starting && s.At.Sub(r.Since) >= loadTime {
			r.Progress, r.Since = Up, s.At
		}
		if r.Progress < Up {
			continue
		}
		for _, at := range s.waiting[r.Model] {
			s.served = append(s.served, r.Model)
			s.waited[r.Model] = max(s.waited[r.Model], s.At.Sub(at))
		}
		s.waiting[r.Model] = nil
	}
	for i := range s.Models {
		m := &s.Models[i]
		if m.Demand.Pending, m.Demand.Oldest = len(s.waiting[m.Name]), (time.Time{}); m.Demand.Pending > 0 {
			m.Demand.Oldest = s.waiting[m.Name][0]
		}
	}
	plan := Make(s.Snapshot)
	s.Memory = plan.Memory
	for _, u := range plan.Unmet {
		if !u.Later {
			s.refused = append(s.refused, u.Model)
		}
	}
	for _, d := range plan.Departures {
		s.Replicas = slices.DeleteFunc(s.Replicas, func(r Placed) bool { return r.Name == d.Replica })
	}
	for _, a := range plan.Assignments {
		if a.New {
			s.loads++
			s.Replicas = append(s.Replicas, Placed{Name: a.Replica, Model: a.Model, Devices: a.Devices,
				Progress: Starting, Since: s.At})
		}
	}
	s.At = s.At.Add(time.Second)
}

// TestRequestsAreGathered checks that requests for three models that share one device are served by model, each
// with one load, and within a bound, whether requests are gathered for the residence of a replica or for longer.
func TestRequestsAreGathered(t *testing.T) {
	turn := 30*time.Second + loadTime // the residence, and the load of the next model
	for _, test := range []struct{ wakeWait, bound time.Duration }{
		{0, 2*turn + loadTime}, {time.Minute, time.Minute + turn + loadTime},
		{10 * time.Minute, 10*time.Minute + 2*turn},
	} {
		s := newSlot(test.wakeWait, "A", "B", "C")
		for _, name := range []string{"A", "B", "A", "A", "C", "A", "B", "C"} {
			s.second(name)
		}
		for range 900 {
			s.second()
		}
		if want := []string{"A", "A", "A", "A", "B", "B", "C", "C"}; !slices.Equal(s.served, want) {
			t.Errorf("wake_wait %s: served as %v, want %v", test.wakeWait, s.served, want)
		}
		if s.loads != 3 {
			t.Errorf("wake_wait %s: %d loads", test.wakeWait, s.loads)
		}
		if s.waited["C"] > test.bound {
			t.Errorf("wake_wait %s: C has waited for %s, more than %s", test.wakeWait, s.waited["C"], test.bound)
		}
	}
}

// TestModelsTakeTurns checks that models that all have requests each second take turns on one device: each
// request waits for at most one turn of each other model, and a model stays for its residence.
func TestModelsTakeTurns(t *testing.T) {
	for _, wakeWait := range []time.Duration{0, time.Minute} {
		models := []string{"A", "B", "C"}
		s := newSlot(wakeWait, models...)
		const minutes = 30
		for range minutes * 60 {
			s.second(models...)
		}
		if len(s.refused) > 0 {
			t.Errorf("wake_wait %s: %d times no request waits", wakeWait, len(s.refused))
		}
		turn := max(30*time.Second, wakeWait) + 2*loadTime
		for _, name := range models {
			if waited := s.waited[name]; waited == 0 || waited > 3*turn {
				t.Errorf("wake_wait %s: %s has waited for %s", wakeWait, name, waited)
			}
		}
		if most := minutes*60/int(30+loadTime.Seconds()) + 1; s.loads > most || s.loads < 10 {
			t.Errorf("wake_wait %s: %d loads in %d minutes", wakeWait, s.loads, minutes)
		}
	}
}

// TestPrioritiesThatChange checks that two models whose priorities change each second do not displace each other
// as often, so that they serve, and that a single change counts at once.
func TestPrioritiesThatChange(t *testing.T) {
	s := newSlot(0, "A", "B")
	s.Models[0].Min, s.Models[1].Min = 1, 1
	up := 0
	for i := range 600 {
		s.Models[i%2].Priority, s.Models[1-i%2].Priority = High, Batch
		if s.second(); len(s.Replicas) > 0 && s.Replicas[0].Progress == Up {
			up++
		}
	}
	if s.loads > 600/30+1 || up < 400 {
		t.Errorf("%d loads in 10 minutes, and a model serves for %d s", s.loads, up)
	}
	s.Models[0].Priority, s.Models[1].Priority = Standard, Standard
	for range 120 {
		s.second()
	}
	there := s.Replicas[0].Model
	for i := range s.Models {
		if s.Models[i].Name != there {
			s.Models[i].Priority = High
		}
	}
	if s.second(); len(s.Replicas) != 1 || s.Replicas[0].Model == there {
		t.Errorf("a higher priority does not displace %s: %+v", there, s.Replicas)
	}
}
