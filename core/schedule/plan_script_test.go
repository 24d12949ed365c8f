package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/hbm"
	"troupe/testkit/script"
)

// TestPlanScripts plays the scripts in testdata/plan. The events:
//
//	devices NODE N GIB             a node with N devices of a size
//	model NAME PRIORITY KEY=VALUE  weights and kv in GiB, min, max, group, load, wait, pinned=yes, held=WHO
//	demand NAME KEY=VALUE          running, pending, places, rate, recent, ttft, tpot, kv, use, capacity
//	delete NAME                    the deployment or the device is deleted
//	device NAME failed | draining | well | use=SHARE
//	after DURATION                 time passes; replicas that started serve
//	broken REPLICA WHY             its start fails
//	stuck REPLICA                  it does not start, whatever time passes
//	plan                           makes a plan and carries it out
func TestPlanScripts(t *testing.T) {
	script.Run(t, "testdata/plan/*.txt", func(t *testing.T) script.Handler {
		p := &scripted{t: t, pool: &pool{Snapshot: Snapshot{At: began}}, stuck: make(map[string]bool)}
		return p.handle
	})
}

type scripted struct {
	*pool
	t     *testing.T
	stuck map[string]bool
}

func (s *scripted) handle(event []string) []string {
	switch event[0] {
	case "devices":
		for i := range number64(s.t, event[2]) {
			s.Devices = append(s.Devices, Device{Name: fmt.Sprintf("%s/gpu-%d", event[1], i), Node: event[1],
				Memory: number64(s.t, event[3]) * gib, KVReserve: 0.3, Utilization: -1})
		}
	case "model":
		s.Models = append(s.Models, s.newModel(event[1], event[2], event[3:]))
	case "demand":
		s.demand(s.model(event[1]), event[2:])
	case "delete":
		s.Models = slices.DeleteFunc(s.Models, func(m Model) bool { return m.Name == event[1] })
		s.Devices = slices.DeleteFunc(s.Devices, func(d Device) bool { return d.Name == event[1] })
	case "device":
		s.device(event[1], event[2])
	case "after":
		s.pass(event[1])
	case "broken":
		s.replica(event[1]).Failure = strings.Join(event[2:], " ")
	case "stuck":
		s.stuck[event[1]] = true
	case "plan":
		plan := Make(s.Snapshot)
		out := append(plan.changes(), plan.unmet()...)
		out = append(out, plan.remembered()...)
		s.Memory = plan.Memory
		s.apply(plan)
		return out
	default:
		s.t.Fatalf("unknown event %q", event[0])
	}
	return nil
}

func (s *scripted) newModel(name, priority string, options []string) Model {
	m := Model{Name: name, Min: 1, Max: 1, Sized: true, Need: hbm.Need{Fixed: gib, Min: 2 * gib, MinAlone: gib, Max: 40 * gib},
		Demand: Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1}}
	for p := Critical; p <= Batch; p++ {
		if p.String() == priority {
			m.Priority = p
		}
	}
	m.SLO = DefaultSLO(m.Priority)
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "weights":
			m.Weights = number64(s.t, value) * gib
		case "min":
			m.Min = int(number64(s.t, value))
		case "max":
			m.Max = int(number64(s.t, value))
		case "group":
			m.Group = int(number64(s.t, value))
		case "load":
			m.Loads.Disk = s.duration(value)
		case "wait":
			m.WakeWait = s.duration(value)
		case "pinned":
			m.Pinned = true
		case "held":
			m.HeldBy = value
		default:
			s.t.Fatalf("unknown option %q", option)
		}
	}
	return m
}

func (s *scripted) demand(m *Model, options []string) {
	d := &m.Demand
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "running":
			d.Running = int(number64(s.t, value))
		case "pending":
			if d.Pending = int(number64(s.t, value)); d.Pending == 0 {
				d.Oldest = time.Time{}
			} else if d.Oldest.IsZero() {
				d.Oldest = s.At
			}
		case "places":
			d.Places = int(number64(s.t, value))
		case "rate":
			d.Rate = s.float(value)
		case "recent":
			d.Recent = s.float(value)
		case "ttft":
			d.TTFT = s.duration(value)
		case "tpot":
			d.TPOT = s.duration(value)
		case "kv":
			d.KV = s.float(value)
		case "use":
			d.Utilization = s.float(value)
		case "capacity":
			d.Capacity = s.float(value)
		default:
			s.t.Fatalf("unknown figure %q", option)
		}
	}
	if d.sequences() > 0 || d.Rate > 0 {
		d.Last = s.At
	}
}

func (s *scripted) device(name, state string) {
	d := &s.Devices[slices.IndexFunc(s.Devices, func(d Device) bool { return d.Name == name })]
	use, given := strings.CutPrefix(state, "use=")
	switch {
	case given:
		d.Utilization = s.float(use)
	default:
		d.Failed, d.Draining = state == "failed", state == "draining"
	}
}

// pass lets time pass, in which replicas begin to serve.
func (s *scripted) pass(duration string) {
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.Progress < Up && !s.stuck[r.Name] && r.Failure == "" {
			r.Progress, r.Since = Up, s.At
		}
	}
	s.At = s.At.Add(s.duration(duration))
}

// apply starts and ends replicas as the plan says.
func (s *scripted) apply(plan Plan) {
	for _, d := range plan.Departures {
		s.Replicas = slices.DeleteFunc(s.Replicas, func(r Placed) bool { return r.Name == d.Replica })
	}
	for _, a := range plan.Assignments {
		if a.New {
			s.Replicas = append(s.Replicas, Placed{Name: a.Replica, Model: a.Model, Devices: a.Devices, Since: s.At})
		}
	}
}

func (s *scripted) replica(name string) *Placed {
	return &s.Replicas[slices.IndexFunc(s.Replicas, func(r Placed) bool { return r.Name == name })]
}

func (s *scripted) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *scripted) float(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func number64(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// unmet returns the wishes that the plan does not meet.
func (p Plan) unmet() (all []string) {
	for _, u := range p.Unmet {
		all = append(all, fmt.Sprintf("%s lacks %d (%s): %s", u.Model, u.Missing, u.Urgency, u.Why))
	}
	return all
}

// remembered returns the attempts that failed, and the models, that the plan remembers.
func (p Plan) remembered() (all []string) {
	for _, key := range slices.Sorted(maps.Keys(p.Memory.Avoid)) {
		a := p.Memory.Avoid[key]
		all = append(all, fmt.Sprintf("%s failed %d times", key, a.Failures))
	}
	return append(all, fmt.Sprintf("remembers %s", strings.Join(slices.Sorted(maps.Keys(p.Memory.Models)), ", ")))
}
