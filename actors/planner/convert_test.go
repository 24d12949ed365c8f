package planner

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

var now = time.Unix(1000, 0).UTC()

// TestUnknownDemand checks that figures that were not observed are unknown, and not zero.
func TestUnknownDemand(t *testing.T) {
	d, active := demandOf(nil, now)
	want := schedule.Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1}
	if !reflect.DeepEqual(d, want) || active {
		t.Errorf("%+v, %v", d, active)
	}
	d, active = demandOf(&messages.DeploymentStatus{
		Wakes: 2, OldestWaiting: durationpb.New(5 * time.Second),
		Demand: &messages.Demand{ArrivalsPerSecond: 3, RecentPerSecond: new(0.0),
			Ttft: &messages.Quantiles{Count: 4, P99: 0.5}},
		Replicas: []*messages.ReplicaStatus{
			{State: messages.ReplicaState_REPLICA_STATE_SERVING, Running: 3, Waiting: 1, MaxSequences: 10,
				KvBlocks: 100, KvBlocksFree: 25},
			{State: messages.ReplicaState_REPLICA_STATE_LOADING, MaxSequences: 100, KvBlocks: 100},
		},
	}, now)
	want = schedule.Demand{Rate: 3, Recent: 0, TTFT: 500 * time.Millisecond, TPOT: -1, Running: 3, Waiting: 1,
		Pending: 2, Oldest: now.Add(-5 * time.Second), Places: 10, KV: 0.75, Utilization: -1}
	if !reflect.DeepEqual(d, want) || !active {
		t.Errorf("%+v, %v, want %+v", d, active, want)
	}
}

// TestUtilizationOfDevices checks that a device without known peaks counts as used for its time share, and one that was
// not observed as unknown.
func TestUtilizationOfDevices(t *testing.T) {
	second := durationpb.New(time.Second)
	for _, c := range []struct {
		is   *messages.GpuUtilization
		want float64
	}{
		{nil, -1},
		{&messages.GpuUtilization{}, -1},
		{&messages.GpuUtilization{Observed: second, TimeShare: 0.3}, 0.3},
		{&messages.GpuUtilization{Observed: second, TimeShare: 0.3, Utilization: new(0.1)}, 0.1},
	} {
		all := devicesOn(core.Node{Name: "a", GPUs: []string{"gpu-0"}},
			[]*messages.GpuStatus{{Name: "gpu-0", Utilization: c.is}}, nil, revisions{})
		if got := all[0].Utilization; got != c.want {
			t.Errorf("%v: utilization %v, want %v", c.is, got, c.want)
		}
	}
}

// TestImpossibleDemand checks that figures that are no numbers are unknown, and not part of a report.
func TestImpossibleDemand(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		q := &messages.Quantiles{Count: 4, P99: x}
		d, _ := demandOf(&messages.DeploymentStatus{Demand: &messages.Demand{ArrivalsPerSecond: x, RecentPerSecond: &x,
			Ttft: q, Tpot: q}}, now)
		if f := figures(d); d.TTFT != -1 || d.TPOT != -1 || f.Rate != nil || f.RecentRate != nil || f.Ttft != nil {
			t.Errorf("%v: %+v, %v", x, d, f)
		}
		uses := make(map[string]map[string]schedule.Adapter)
		addUses(uses, []*messages.AdapterDemand{{Model: "m", Adapter: "a", Uses: x},
			{Model: "m", Adapter: "a", Uses: 2}})
		if n := uses["m"]["a"].Uses; n != 2 {
			t.Errorf("%v: %v uses", x, n)
		}
	}
}

// TestLimits checks the limits of deployments that sleep, are stopped or parked, or are held.
func TestLimits(t *testing.T) {
	spec := func(replicas, least, most uint32) *messages.DeploymentSpec {
		return &messages.DeploymentSpec{Name: "m", Replicas: new(replicas), MinReplicas: new(least),
			MaxReplicas: new(most)}
	}
	preempted, parked, held := spec(3, 1, 3), spec(2, 1, 3), spec(2, 1, 3)
	preempted.Preemptions = []*messages.Preemption{{Replica: "m-1"}}
	parked.Level = messages.Level_LEVEL_PARKED
	held.HeldBy = &messages.Hold{Who: "ops", Until: timestamppb.New(now)}
	switched := spec(0, 0, 2)
	switched.HeldBy = held.HeldBy
	for name, c := range map[string]struct {
		spec             *messages.DeploymentSpec
		least, most, has int
		by               string
	}{
		"asleep":                          {spec(0, 0, 2), 0, 2, 0, ""},
		"switched while it went to sleep": {switched, 0, 2, 0, ""},
		"stopped":                         {spec(0, 1, 2), 0, 0, 0, ""},
		"preempted":                       {preempted, 1, 3, 2, "an operator"},
		"parked":                          {parked, 1, 3, 0, "an operator"},
		"held":                            {held, 1, 3, 2, "ops"},
	} {
		m := deploymentOf(c.spec, 1, nil, now).Model
		if m.Min != c.least || m.Max != c.most || m.Replicas != c.has || m.HeldBy != c.by {
			t.Errorf("%s: %+v", name, m)
		}
	}
	preempted.WakeWait = new(uint32(60))
	d := deploymentOf(preempted, 1, nil, now)
	if !reflect.DeepEqual(d.Reserved, []string{"m-1"}) || d.Model.IdleAfter != math.MaxInt64 ||
		d.Model.WakeWait != time.Minute || d.Model.Sized {
		t.Errorf("%+v", d)
	}
}

// TestDevices checks what devices report: their state, the models whose weights they have, and what replicas
// hold and use.
func TestDevices(t *testing.T) {
	revs := revisions{map[string][]string{"r": {"m", "n"}}, map[string]string{"m": "r", "n": "r"}}
	gpus := []*messages.GpuStatus{
		{Uuid: "u0", MemoryBytes: 100, Budget: &messages.MemoryBudget{KvReserve: 30, Replicas: []string{"m-0", "x-0"},
			Shares: []*messages.ReplicaBudget{{Replica: "m-0", Fixed: 4, KvMinBytes: 3}, {Replica: "x-0", Fixed: 2}}},
			Utilization: &messages.GpuUtilization{Utilization: new(0.5)},
			Turns:       []*messages.GpuTurns{{Replica: "m-0", Share: 0.8}},
			Weights: []*messages.GpuWeights{{Model: "m", RevisionDigest: "r", Users: []string{"m-0"}, Bytes: 20},
				{Model: "m", RevisionDigest: "before", Users: []string{"m-1"}, Bytes: 5},
				{Model: "n", RevisionDigest: "unused", Bytes: 3},
				{Model: "old", Bytes: 7}, {Model: "new", Loading: true, Bytes: 9}},
			Facts: &messages.GpuFacts{Near: []*messages.GpuNeighbour{{Uuid: "u2", Nvlinks: 4}}}},
		nil,
		{Uuid: "u2", MemoryBytes: 100, State: messages.GpuState_GPU_STATE_QUARANTINED, Quarantine: &messages.Quarantine{
			Cause: messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST}},
		{Uuid: "u3", MemoryBytes: 100},
	}
	images := &messages.HostCacheStatus{Images: []*messages.HostImage{
		{Model: "h", RevisionDigest: "q"}, {Model: "filling"}}}
	all := devicesOn(core.Node{Name: "a", GPUs: []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, Draining: true}, gpus,
		images, revs)
	d := all[0]
	if d.Name != "a/gpu-0" || !d.Draining || d.KVReserve != 0.3 || d.Unused != 10 || d.Utilization != 0.5 ||
		!reflect.DeepEqual(d.Weights, []string{"m", "n", "old"}) || !reflect.DeepEqual(d.Images, []string{"h"}) ||
		!reflect.DeepEqual(d.Held, map[string]int64{"m-0": 27, "m-1": 5, "x-0": 2}) ||
		!reflect.DeepEqual(d.Files, map[string]int64{"r": 20, "before": 5}) ||
		!reflect.DeepEqual(d.Use, map[string]float64{"m-0": 0.4}) {
		t.Errorf("%+v", d)
	}
	if !all[1].Silent || all[0].Silent || !all[2].Failed || !all[2].Quarantined || all[3].Failed {
		t.Errorf("%+v", all[1:])
	}
	if all[0].Island != all[2].Island || all[0].Island == all[3].Island {
		t.Errorf("islands %q %q %q", all[0].Island, all[2].Island, all[3].Island)
	}
}

// TestFiles checks that the files of a replica are known, also while its deployment has other ones.
func TestFiles(t *testing.T) {
	spec := &messages.DeploymentSpec{Name: "m", RevisionDigest: "new"}
	status := &messages.DeploymentStatus{Assigned: []*messages.AssignmentStatus{{Replica: "m-0", Outdated: true,
		RevisionDigest: "old"}}}
	d := deploymentOf(spec, 1, status, now)
	if r := d.Reports[0]; d.Model.Files != "new" || r.Files != "old" || !r.Outdated {
		t.Errorf("%+v", d)
	}
}

// TestUnknownRevision checks that weights of an unknown revision are not taken for those of deployments whose revision
// is not known yet.
func TestUnknownRevision(t *testing.T) {
	known := revisionsOf([]*messages.ApplyDeployment{
		{Spec: &messages.DeploymentSpec{Name: "m", RevisionDigest: "r"}},
		{Spec: &messages.DeploymentSpec{Name: "new"}}})
	gpus := []*messages.GpuStatus{{Uuid: "u0", MemoryBytes: 100,
		Weights: []*messages.GpuWeights{{Model: "old", Bytes: 7}, {Model: "n", RevisionDigest: "r", Bytes: 5}}}}
	d := devicesOn(core.Node{Name: "a", GPUs: []string{"gpu-0"}}, gpus, nil, known)[0]
	if !reflect.DeepEqual(d.Weights, []string{"m", "n", "old"}) {
		t.Errorf("%q", d.Weights)
	}
}

// TestSLO checks that a deployment has the SLO of its priority only if it has none of its own, also if that has only
// one time.
func TestSLO(t *testing.T) {
	standard := schedule.DefaultSLO(schedule.Standard)
	for _, c := range []struct {
		slo  *messages.Slo
		want schedule.SLO
	}{
		{nil, standard},
		{&messages.Slo{}, standard},
		{&messages.Slo{Ttft: durationpb.New(time.Second)}, schedule.SLO{TTFT: time.Second}},
		{&messages.Slo{Tpot: durationpb.New(time.Second)}, schedule.SLO{TPOT: time.Second}},
	} {
		if got := SLOOf(&messages.DeploymentSpec{Slo: c.slo}); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.slo, got, c.want)
		}
	}
}

// TestOutcomes checks what the errors of the store mean: whether a write may still be applied.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want core.Outcome
	}{
		{nil, core.Done},
		{fmt.Errorf("store: %w", ErrConflict), core.Conflict},
		{refusal{&messages.Refused{Reason: messages.Reason_REASON_NO_QUORUM}}, core.NotStored},
		{refusal{&messages.Refused{Reason: messages.Reason_REASON_OUTCOME_UNKNOWN}}, core.Unknown},
		{errors.New("timeout"), core.Unknown},
	} {
		if got, _ := outcomeOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

type refusal struct{ *messages.Refused }

func (r refusal) Error() string { return r.GetReason().String() }

// TestAssignmentsSurvive checks that assignments are the same after they were stored and read.
func TestAssignmentsSurvive(t *testing.T) {
	w := core.Write{Term: 3, To: 3, Intended: 2, Replicas: []core.Assignment{
		{Replica: "m-0", Devices: []string{"a/gpu-0", "a/gpu-1"}, Why: "w", After: []string{"x-1"}, At: now},
		{Replica: "m-1", Devices: []string{"b/gpu-0"}, Why: "v"}}}
	spec := &messages.DeploymentSpec{Name: "m", Assignments: assignmentsOf(w)}
	d := deploymentOf(spec, 1, nil, now)
	if !reflect.DeepEqual(d.Assigned, w.Replicas) || !d.Planned || d.Intended != 2 || d.Term != w.Term {
		t.Errorf("%+v", d)
	}
}

// TestRevision checks that other settings or files make another revision, and other numbers of replicas do not.
func TestRevision(t *testing.T) {
	of := func(change func(s *messages.DeploymentSpec)) schedule.Model {
		spec := &messages.DeploymentSpec{Name: "m", Path: "p", Deploy: 1, RevisionDigest: "r", KvBlocks: new(uint32(8))}
		change(spec)
		return deploymentOf(spec, 1, nil, now).Model
	}
	first := of(func(*messages.DeploymentSpec) {})
	for name, c := range map[string]struct {
		change func(s *messages.DeploymentSpec)
		same   bool
	}{
		"blocks": {func(s *messages.DeploymentSpec) { s.KvBlocks = new(uint32(9)) }, false},
		"deploy": {func(s *messages.DeploymentSpec) { s.Deploy++ }, false},
		"engine": {func(s *messages.DeploymentSpec) { s.Engine = &messages.EngineSpec{Kind: "simulated"} }, false},
		"plan": {func(s *messages.DeploymentSpec) {
			s.Replicas, s.Assignments = new(uint32(3)), &messages.Assignments{Term: 2}
		}, true},
		"held": {func(s *messages.DeploymentSpec) { s.HeldBy = &messages.Hold{Who: "ops"} }, true},
	} {
		if m := of(c.change); (m.Revision == first.Revision) != c.same || m.Files != "r" {
			t.Errorf("%s: %q after %q, files %q", name, m.Revision, first.Revision, m.Files)
		}
	}
}
