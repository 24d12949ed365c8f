package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

// report converts a plan with its reasons.
func (p *planner) report(r *core.Record) *messages.PlanReport {
	out := &messages.PlanReport{Number: r.Number, Node: p.Node, Term: r.Term, At: timestamppb.New(r.At),
		Causes: r.Causes, Outcome: r.Outcome}
	for _, s := range r.Steps {
		out.Steps = append(out.Steps, &messages.PlanStep{Name: s.Name, Took: durationpb.New(s.Took), Result: s.Result})
	}
	x := indexOf(r)
	for _, m := range r.Snapshot.Models {
		out.Models = append(out.Models, x.modelPlan(r.At, m))
	}
	for _, a := range r.Plan.Assignments {
		out.Replicas = append(out.Replicas, x.plannedReplica(a))
	}
	for _, d := range r.Plan.Departures {
		out.Departures = append(out.Departures, x.departureOf(d))
	}
	for _, w := range r.Writes {
		write := &messages.PlanWrite{Model: w.Name, Revision: w.Revision, From: uint32(w.From), To: uint32(w.To),
			Outcome: w.Outcome.String()}
		if w.Failure != "" && w.Outcome != core.Conflict {
			write.Outcome += ": " + w.Failure
		}
		out.Writes = append(out.Writes, write)
	}
	return out
}

// index finds what a plan has of a model or a replica.
type index struct {
	revisions map[string]uint64 // by model
	wants     map[string]schedule.Want
	unmet     map[string]schedule.Unmet
	assigned  map[string]int             // number of replicas, by model
	replicas  map[string]schedule.Placed // that were there before the plan
}

func indexOf(r *core.Record) index {
	x := index{make(map[string]uint64), make(map[string]schedule.Want), make(map[string]schedule.Unmet),
		make(map[string]int), make(map[string]schedule.Placed)}
	for i := range r.Planned {
		x.revisions[r.Planned[i].Model.Name] = r.Planned[i].Revision
	}
	for _, w := range r.Plan.Wants {
		x.wants[w.Model] = w.Want
	}
	for _, u := range r.Plan.Unmet {
		x.unmet[u.Model] = u
	}
	for _, a := range r.Plan.Assignments {
		x.assigned[a.Model]++
	}
	for _, p := range r.Snapshot.Replicas {
		x.replicas[p.Name] = p
	}
	return x
}

// modelPlan reports what a model wants and has.
func (x *index) modelPlan(now time.Time, m schedule.Model) *messages.ModelPlan {
	out := &messages.ModelPlan{
		Name: m.Name, Priority: m.Priority.String(), Pinned: m.Pinned, Min: uint32(m.Min), Max: uint32(m.Max),
		Demand: figures(m.Demand), Revision: x.revisions[m.Name], Replicas: uint32(x.assigned[m.Name]),
	}
	if m.HeldBy != "" && (m.HeldTill.IsZero() || now.Before(m.HeldTill)) {
		out.HeldBy = m.HeldBy
		if !m.HeldTill.IsZero() {
			out.HeldUntil = timestamppb.New(m.HeldTill)
		}
	}
	if m.SLO.TTFT > 0 {
		out.SloTtft = durationpb.New(m.SLO.TTFT)
	}
	if m.SLO.TPOT > 0 {
		out.SloTpot = durationpb.New(m.SLO.TPOT)
	}
	if w, known := x.wants[m.Name]; known {
		out.Want, out.Urgency, out.Why = uint32(w.Replicas), w.Urgency.String(), w.Why
	}
	if u, refused := x.unmet[m.Name]; refused {
		out.Missing, out.Unmet, out.Later = uint32(u.Missing), u.Why, u.Later
	}
	return out
}

// figures converts the demand of a model. Unknown figures are absent.
func figures(d schedule.Demand) *messages.ModelFigures {
	out := &messages.ModelFigures{
		Rate: known(d.Rate), RecentRate: known(d.Recent), Running: uint32(d.Running), Waiting: uint32(d.Waiting),
		Pending: uint32(d.Pending), Kv: known(d.KV), Utilization: known(d.Utilization), Capacities: d.Capacities,
	}
	if d.TTFT >= 0 {
		out.Ttft = durationpb.New(d.TTFT)
	}
	if d.TPOT >= 0 {
		out.Tpot = durationpb.New(d.TPOT)
	}
	if !d.Oldest.IsZero() {
		out.Oldest = timestamppb.New(d.Oldest)
	}
	if !d.Last.IsZero() {
		out.Last = timestamppb.New(d.Last)
	}
	if d.Places > 0 {
		out.Places = new(uint32(d.Places))
	}
	return out
}

func known(x float64) *float64 {
	if !(x >= 0) || math.IsInf(x, 1) {
		return nil
	}
	return &x
}

func (x *index) plannedReplica(a schedule.Assignment) *messages.PlannedReplica {
	out := &messages.PlannedReplica{Name: a.Replica, Model: a.Model, Devices: a.Devices, New: a.New, After: a.After}
	if a.New {
		out.Urgency, out.Why = a.Urgency.String(), a.Why
		return out
	}
	if p, known := x.replicas[a.Replica]; known {
		out.Progress = p.Progress.String()
	}
	return out
}

func (x *index) departureOf(d schedule.Departure) *messages.PlannedDeparture {
	return &messages.PlannedDeparture{Name: d.Replica, Model: d.Model, For: d.For, Why: d.Why,
		Devices: x.replicas[d.Replica].Devices}
}

func onlyNew(all []*messages.PlannedReplica) []*messages.PlannedReplica {
	return slices.DeleteFunc(all, func(r *messages.PlannedReplica) bool { return !r.GetNew() })
}

// explanation returns why a model has what it has.
func (p *planner) explanation(a asked, r *core.Record) any {
	i := slices.IndexFunc(r.Snapshot.Models, func(m schedule.Model) bool { return m.Name == a.model })
	if i < 0 {
		return &messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND,
			Detail: fmt.Sprintf("no deployment %q; models.list names them", a.model)}
	}
	x := indexOf(r)
	out := &messages.ModelExplanation{RequestId: a.id, At: timestamppb.New(r.At),
		Model: x.modelPlan(r.At, r.Snapshot.Models[i])}
	for _, assigned := range r.Plan.Assignments {
		if assigned.Model == a.model {
			out.Replicas = append(out.Replicas, x.plannedReplica(assigned))
		}
	}
	for _, d := range r.Plan.Departures {
		if d.Model == a.model {
			out.Departures = append(out.Departures, x.departureOf(d))
		}
	}
	for _, v := range r.Verdicts[a.model] {
		out.Devices = append(out.Devices, &messages.DeviceVerdict{Device: v.Device, Admits: v.Admits, Why: v.Why})
	}
	for _, d := range r.Snapshot.Devices {
		if at, failed := r.Plan.Memory.Attempt(a.model, d.Name); failed {
			out.Attempts = append(out.Attempts, &messages.FailedAttempt{Device: d.Name, Failures: uint32(at.Failures),
				Why: at.Why, Until: timestamppb.New(at.Until)})
		}
	}
	return out
}

// refusalOf converts a refusal. path is the folder of the model.
func refusalOf(e core.Refuse, path string) *messages.PlacementRefused {
	out := &messages.PlacementRefused{Name: e.Name, Revision: e.Revision, Missing: uint32(e.Unmet.Missing),
		Later: e.Unmet.Later}
	if e.Unmet.Missing == 0 {
		return out
	}
	out.Refused = &messages.Refused{Reason: messages.Reason_REASON_NOT_READY, Detail: e.Unmet.Detail}
	switch s := e.Unmet.Shortage; {
	case s != nil:
		out.Refused.Reason = messages.Reason_REASON_NO_MEMORY
		out.Refused.Memory = shortage(s, path)
	case e.Unmet.Failure != "":
		out.Refused.Reason = messages.Reason_REASON_LOAD_FAILED
	case e.Unmet.Fault != "":
		out.Refused.Reason = messages.Reason_REASON_QUARANTINED
	}
	return out
}

// shortage converts the memory that a device lacks.
func shortage(s *schedule.Shortage, path string) *messages.MemoryShortage {
	out := &messages.MemoryShortage{Model: path, Bytes: uint64(s.Bytes), Used: uint64(s.Used), Total: uint64(s.Total),
		Reserve: uint64(s.Reserve), Evictable: uint64(s.Evictable)}
	if s.Room != nil {
		out.Device = s.Room.Device
		for _, h := range s.Room.Leave {
			out.Leave = append(out.Leave, &messages.MemoryHolder{Model: h.Model, Replicas: h.Replicas,
				Bytes: uint64(h.Bytes()), Command: h.ParkCommand()})
		}
	}
	return out
}

// onEnded logs and publishes a plan.
func (p *planner) onEnded(r *core.Record) {
	if p.OnPlan != nil {
		p.OnPlan(r)
	}
	log := p.Log.Debug()
	for _, s := range r.Steps {
		log = log.Str(s.Name, fmt.Sprintf("%s (%s)", s.Result, s.Took.Round(time.Millisecond)))
	}
	log.Strs("causes", r.Causes).Str("outcome", r.Outcome).Msg("planned")
	if !r.Changed() {
		return
	}
	var changes []string
	for _, w := range r.Writes {
		for _, c := range w.Changes {
			verb := "add "
			if c.Withdrawn {
				verb = "withdraw "
			}
			changes = append(changes, verb+c.Replica+" ("+c.Why+")")
		}
		if len(w.Changes) == 0 && w.From != w.To {
			changes = append(changes, fmt.Sprintf("%s from %d to %d replicas", w.Name, w.From, w.To))
		} else if len(w.Changes) == 0 {
			changes = append(changes, w.Name+" waits for no other replica any longer")
		}
	}
	text := strings.Join(changes, "; ")
	p.Log.Info().Strs("causes", r.Causes).Str("outcome", r.Outcome).Str("changes", text).Msg("planned")
	p.Publish("planner.planned", "planner",
		fmt.Sprintf("plan %d of term %d: %s; %s", r.Number, r.Term, text, r.Outcome))
}
