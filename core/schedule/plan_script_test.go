package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/backend"
	"troupe/core/hbm"
	"troupe/core/units"
	"troupe/testkit/script"
)

// TestPlanScripts plays the scripts in testdata/plan. The events:
//
//	devices NODE N GIB             a node with N devices of a size
//	model NAME PRIORITY KEY=VALUE  weights and kv in GiB, min, max, group, load, wait, pinned=yes, held=WHO
//	set NAME KEY=VALUE             changes a model, likewise
//	options KEY=VALUE              policy, placement
//	demand NAME KEY=VALUE          running, waiting, pending, places, rate, recent, ttft, tpot, kv, use, capacity
//	delete NAME                    the deployment or the device is deleted
//	device NAME failed | draining | quarantined | silent | leaving | well | KEY=VALUE
//	                               use, engine, unused and other in GiB; weights, host, disk, folder and
//	                               returning of a model
//	reserved NAME                  no replica gets this name
//	away NODE                      a node has left
//	outdated REPLICA [FILES GIB]   it no longer matches its deployment; its files and weights, if others
//	streams REPLICA N              it has sequences
//	linger                         replicas that are to leave do so when they are gone
//	gone REPLICA                   it has left
//	kept REPLICA                   it serves, although it was to leave
//	after DURATION                 time passes; replicas that started serve
//	broken REPLICA WHY             its start fails, or it fails if it serves
//	stuck REPLICA                  it does not start, whatever time passes
//	plan                           makes a plan and carries it out
//	details                        what the last plan says about wishes, and unmet ones
func TestPlanScripts(t *testing.T) {
	script.Run(t, "testdata/plan/*.txt", func(t *testing.T) script.Handler {
		p := &scripted{t: t, pool: &pool{Snapshot: Snapshot{At: began}}, stuck: make(map[string]bool)}
		return p.handle
	})
}

type scripted struct {
	*pool
	t       *testing.T
	stuck   map[string]bool
	lingers bool
	last    Plan
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
	case "set":
		s.set(s.model(event[1]), event[2:])
	case "options":
		s.setOptions(event[1:])
	case "reserved":
		s.Reserved = append(s.Reserved, event[1])
	case "away":
		s.Away = append(s.Away, Away{event[1], s.At})
	case "outdated":
		r := s.replica(event[1])
		if r.Outdated = true; len(event) > 2 {
			r.Files, r.Weights = event[2], number64(s.t, event[3])*gib
		}
	case "streams":
		s.replica(event[1]).Streams = int(number64(s.t, event[2]))
	case "linger":
		s.lingers = true
	case "gone":
		s.Replicas = slices.DeleteFunc(s.Replicas, func(r Placed) bool { return r.Name == event[1] })
	case "kept":
		r := s.replica(event[1])
		r.Progress, r.Since = Up, s.At
	case "details":
		return s.last.details()
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
		r := s.replica(event[1])
		r.Failure, r.Served = strings.Join(event[2:], " "), r.Progress == Up
	case "stuck":
		s.stuck[event[1]] = true
	case "plan":
		plan := Make(s.Snapshot)
		out := append(plan.changes(), plan.unmet()...)
		out = append(out, plan.remembered()...)
		s.last, s.Memory = plan, plan.Memory
		s.apply(plan)
		return out
	default:
		s.t.Fatalf("unknown event %q", event[0])
	}
	return nil
}

func (s *scripted) newModel(name, priority string, options []string) Model {
	m := Model{Name: name, Min: 1, Max: 1, Sized: true,
		Need:   hbm.Need{Fixed: gib, Min: 2 * gib, MinAlone: gib, Max: 40 * gib},
		Demand: Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1}}
	for p := Critical; p <= Batch; p++ {
		if p.String() == priority {
			m.Priority = p
		}
	}
	m.SLO = DefaultSLO(m.Priority)
	s.set(&m, options)
	return m
}

func (s *scripted) set(m *Model, options []string) {
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
		case "replicas":
			m.Replicas = int(number64(s.t, value))
		case "engine":
			m.Engine = backend.Kind(value)
		case "files":
			m.Files = value
		case "revision":
			m.Revision = value
		case "sized":
			m.Sized = value == "yes"
		default:
			s.t.Fatalf("unknown option %q", option)
		}
	}
}

func (s *scripted) setOptions(options []string) {
	for _, option := range options {
		switch key, value, _ := strings.Cut(option, "="); key {
		case "policy":
			s.Options.Policy = value
		case "placement":
			s.Options.Placement = value
		default:
			s.t.Fatalf("unknown option %q", option)
		}
	}
	if err := s.Options.Check(); err != nil {
		s.t.Fatal(err)
	}
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
		case "waiting":
			d.Waiting = int(number64(s.t, value))
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
			d.Capacities = []float64{s.float(value)}
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
	key, value, given := strings.Cut(state, "=")
	if !given {
		d.Failed, d.Draining, d.Quarantined = state == "failed", state == "draining", state == "quarantined"
		d.Silent, d.SilentSince, d.Leaving = state == "silent", s.At, state == "leaving"
		return
	}
	switch key {
	case "use":
		d.Utilization = s.float(value)
	case "fault":
		d.Fault = strings.ReplaceAll(value, "_", " ")
	case "engine":
		d.Engine = backend.Kind(value)
	case "unused":
		d.Unused = number64(s.t, value) * gib
	case "other":
		d.Other = number64(s.t, value) * gib
	case "weights":
		d.Weights = append(d.Weights, value)
	case "host":
		d.Images = append(d.Images, value)
	case "disk":
		d.DiskImages = append(d.DiskImages, value)
	case "returning":
		d.Returning = strings.Fields(value)
	case "folder":
		d.Folders = append(d.Folders, value)
	default:
		s.t.Fatalf("unknown state %q", state)
	}
}

// pass lets time pass, in which replicas begin to serve.
func (s *scripted) pass(duration string) {
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.Progress < Up && !s.waits(*r) && !s.stuck[r.Name] && r.Failure == "" {
			r.Progress, r.Since = Up, s.At
		}
	}
	s.At = s.At.Add(s.duration(duration))
}

// apply starts and ends replicas as the plan says.
func (s *scripted) apply(plan Plan) {
	for _, d := range plan.Departures {
		if r := s.replica(d.Replica); s.lingers && r.Progress < Leaving {
			r.Progress, r.Since = Leaving, s.At
		} else if !s.lingers {
			s.Replicas = slices.DeleteFunc(s.Replicas, func(r Placed) bool { return r.Name == d.Replica })
		}
	}
	for _, a := range plan.Assignments {
		if a.New {
			s.Replicas = append(s.Replicas, Placed{Name: a.Replica, Model: a.Model, Devices: a.Devices, Since: s.At,
				After: a.After})
		}
	}
}

// waits reports whether a replica waits for others to leave.
func (s *scripted) waits(r Placed) bool {
	return slices.ContainsFunc(s.Replicas, func(o Placed) bool { return slices.Contains(r.After, o.Name) })
}

func (s *scripted) replica(name string) *Placed {
	i := slices.IndexFunc(s.Replicas, func(r Placed) bool { return r.Name == name })
	if i < 0 {
		s.t.Fatalf("no replica %s", name)
	}
	return &s.Replicas[i]
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

// details returns what else a plan says.
func (p Plan) details() (all []string) {
	for _, w := range p.Wants {
		all = append(all, fmt.Sprintf("%s wants %d (%s): %s", w.Model, w.Replicas, w.Urgency, w.Why))
	}
	for _, a := range p.Assignments {
		if len(a.After) > 0 {
			all = append(all, fmt.Sprintf("%s after %s", a.Replica, strings.Join(a.After, ", ")))
		}
		if a.Replaces != "" {
			all = append(all, fmt.Sprintf("%s replaces %s", a.Replica, a.Replaces))
		}
	}
	for _, u := range p.Unmet {
		all = append(all, u.Detail)
		if u.Later {
			all = append(all, u.Model+" waits")
		}
		if s := u.Shortage; s != nil {
			all = append(all, fmt.Sprintf("%s lacks %d of %d MiB, with %d used, %d reserved and %d evictable", s.Device,
				s.Missing>>20, s.Total>>20, s.Used>>20, s.Reserve>>20, s.Evictable>>20))
		}
	}
	return all
}

// remembered returns the attempts that failed, and the models, that the plan remembers.
func (p Plan) remembered() (all []string) {
	for _, key := range slices.Sorted(maps.Keys(p.Memory.Avoid)) {
		a := p.Memory.Avoid[key]
		all = append(all, key+" failed "+units.Count(a.Failures, "time"))
	}
	return append(all, fmt.Sprintf("remembers %s", strings.Join(slices.Sorted(maps.Keys(p.Memory.Models)), ", ")))
}
