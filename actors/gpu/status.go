package gpu

import (
	"math"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	core "troupe/core/device"
	"troupe/core/health"
	weights "troupe/core/residency"
	"troupe/core/switching"
	"troupe/messages"
)

var causes = map[health.Cause]messages.QuarantineCause{
	health.Operator: messages.QuarantineCause_QUARANTINE_CAUSE_OPERATOR,
	health.Lost:     messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST,
	health.Memory:   messages.QuarantineCause_QUARANTINE_CAUSE_MEMORY,
	health.XID:      messages.QuarantineCause_QUARANTINE_CAUSE_XID,
	health.Hung:     messages.QuarantineCause_QUARANTINE_CAUSE_HUNG,
}

func (d *device) status(ctx actor.Context) *messages.GpuStatus {
	m := d.memory.Status(supervise.Now(ctx))
	s := &messages.GpuStatus{
		Node: d.Node,
		Name: d.Name, Product: d.Info.Name, Uuid: d.Info.UUID, Simulated: d.Info.Simulated, State: d.state(),
		Engine:      string(d.engine()),
		MemoryBytes: uint64(m.Total), FreeBytes: uint64(m.Free), YieldableBytes: uint64(m.Yieldable),
		Quarantine: d.quarantineStatus(), Health: d.healthStatus(), Facts: d.Facts,
		Budget: &messages.MemoryBudget{
			KvReserve: uint64(m.Budget.Reserve), Fixed: uint64(m.Budget.Fixed), KvMinBytes: uint64(m.Budget.Min),
			Replicas: m.Replicas,
		},
	}
	for i, replica := range m.Replicas {
		s.Budget.Shares = append(s.Budget.Shares, &messages.ReplicaBudget{
			Replica: replica, Fixed: uint64(m.Needs[i].Fixed), KvMinBytes: uint64(m.Needs[i].Min),
		})
	}
	s.Switch, s.Turns = d.switchStatus(), d.turnsStatus()
	s.Switches = d.switched.status()
	s.Utilization = utilizationOf(d.window.Figures(supervise.Now(ctx)), d.Peaks)
	for _, l := range m.Leases {
		lease := &messages.GpuLease{
			Owner: l.Owner, Kind: l.Kind, Bytes: uint64(l.Bytes), Pages: uint32(len(l.Pages)),
		}
		if l.Kind == "adapters" {
			lease.MinPages = uint32(m.AdapterMin[l.Owner])
		}
		s.Leases = append(s.Leases, lease)
	}
	for _, c := range m.Weights {
		s.Weights = append(s.Weights, weightsOf(c))
	}
	return s
}

func weightsOf(c weights.Copy) *messages.GpuWeights {
	w := &messages.GpuWeights{
		Owner: c.Owner(), Model: c.Source.Model, Path: c.Source.Path, RevisionDigest: c.Content.Revision,
		Level: levels[c.Level()], Bytes: uint64(c.Source.Bytes), Spare: c.Spare, LastUsed: timestamppb.New(c.Used),
		Loading: c.State == weights.Wanted || c.State == weights.Loading,
		Readers: uint32(len(c.Readers)),
	}
	for _, u := range c.Users {
		w.Users = append(w.Users, u.Lease)
	}
	return w
}

func (d *device) state() messages.GpuState {
	_, quarantined := d.quarantine.Current()
	switch {
	case quarantined:
		return messages.GpuState_GPU_STATE_QUARANTINED
	case d.switches.Status().Phase != switching.Serving:
		return switchPhases[d.switches.Status().Phase]
	case d.memory.Has(core.Inspecting, core.Waiting, core.Loading, core.Opening):
		return messages.GpuState_GPU_STATE_LOADING
	case d.memory.Has(core.Freeing):
		return messages.GpuState_GPU_STATE_FREEING
	case d.memory.Has(core.Resident):
		return messages.GpuState_GPU_STATE_SERVING
	}
	return messages.GpuState_GPU_STATE_IDLE
}

// quarantineStatus returns the quarantine as a message; nil if there is none.
func (d *device) quarantineStatus() *messages.Quarantine {
	q, ok := d.quarantine.Current()
	if !ok {
		return nil
	}
	return &messages.Quarantine{
		Cause: causes[q.Cause], Detail: q.Detail, Since: timestamppb.New(q.Since), SelfTest: q.SelfTest,
	}
}

// healthStatus returns the last observation as a message; nil before the first.
func (d *device) healthStatus() *messages.GpuHealth {
	o, at, ok := d.quarantine.Observation()
	if !ok {
		return nil
	}
	var events []*messages.GpuEvent
	for _, n := range d.quarantine.Notes() {
		events = append(events, &messages.GpuEvent{Time: timestamppb.New(n.Time), Detail: n.Detail})
	}
	return &messages.GpuHealth{
		Observed: timestamppb.New(at), MemoryUsedBytes: uint64Reading(o.MemoryUsed),
		UtilisationPercent:       uint32Reading(o.Utilisation),
		MemoryUtilisationPercent: uint32Reading(o.MemoryUtilisation),
		TemperatureCelsius:       uint32Reading(o.Temperature), PowerMilliwatts: uint32Reading(o.Power),
		EccCorrected: uint64Reading(o.Corrected), EccUncorrectable: uint64Reading(o.Uncorrectable),
		RemapPending: o.RemapPending, RemapFailed: o.RemapFailed,
		PcieGeneration: uint32(o.PCIe.Generation), PcieWidth: uint32(o.PCIe.Width), Nvlinks: uint32(o.NVLinks),
		Events: events,
	}
}

func uint64Reading(r health.Reading) *uint64 {
	if !r.Known {
		return nil
	}
	return &r.Value
}

func uint32Reading(r health.Reading) *uint32 {
	if !r.Known {
		return nil
	}
	n := uint32(min(r.Value, math.MaxUint32))
	return &n
}
