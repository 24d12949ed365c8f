package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/node/metrics"
)

// source is a node with one replica and one tier.
type source struct{ silent error }

func (s source) LocalReplicas(context.Context) ([]*messages.ReplicaStatus, error) {
	return []*messages.ReplicaStatus{{
		Name: "m-0", Model: "m", KvBlocks: 10, KvBlocksFree: 4, KvBlocksCached: 1, KvBlockBytes: 100,
		Running: 5, Waiting: 1, Steps: 11, TokensIn: 12, TokensOut: 13, TokensCached: 14, MigratedOut: 15,
		SequencesNotFinite: 2, Gpu: "gpu-0", StepTime: durationpb.New(2500 * time.Millisecond),
		AdapterCounts: &messages.AdapterCounts{Pages: 8, PagesFree: 3, Loads: 4, Reads: 1, HostLoads: 2},
		Adapters: []*messages.AdapterHeld{
			{Location: messages.AdapterLocation_ADAPTER_LOCATION_GPU, Sequences: 2},
			{Location: messages.AdapterLocation_ADAPTER_LOCATION_DRAM, Sequences: 1},
		},
	}}, s.silent
}

func (s source) LocalGPUs(context.Context) ([]*messages.GpuStatus, error) {
	share, power := 0.5, uint32(300_500)
	return []*messages.GpuStatus{{Name: "gpu-0", Turns: []*messages.GpuTurns{{Replica: "m-0", Turns: 9, Share: 0.25,
		Overdue: 1, Waited: durationpb.New(1500 * time.Millisecond)}}, MemoryBytes: 100, FreeBytes: 30,
		Utilization: &messages.GpuUtilization{TimeShare: 0.75, RooflineShare: &share},
		Health:      &messages.GpuHealth{PowerMilliwatts: &power},
		Switches:    &messages.GpuSwitchTotals{Switched: 4, Failed: 1, Load: durationpb.New(2 * time.Second), Bytes: 8},
	}}, s.silent
}

func (s source) LocalHostCache(context.Context) (*messages.HostCacheStatus, error) {
	return &messages.HostCacheStatus{
		BudgetBytes: 1000, UsedBytes: 700, AdapterBytes: 300, AdapterCopies: 2, AdaptersRefused: 4,
		Images: []*messages.HostImage{{}},
	}, s.silent
}

func (s source) Cluster(context.Context) (*messages.ClusterView, error) {
	return &messages.ClusterView{
		Deployments: []*messages.DeploymentStatus{
			{Spec: &messages.DeploymentSpec{Name: "asleep"}}, {Spec: &messages.DeploymentSpec{
				Name: "m", Replicas: new(uint32(2))},
				Replicas: []*messages.ReplicaStatus{{State: messages.ReplicaState_REPLICA_STATE_SERVING}}},
		},
		Waiting: map[string]uint32{"asleep": 3},
	}, s.silent
}

func (s source) Tiers(context.Context) ([]*messages.SlotsStatus, error) {
	return []*messages.SlotsStatus{{Name: "dram", Free: 7, CapacityBytes: 1000}}, nil
}

func (s source) Remote(context.Context) (*messages.SlotsStatus, error) {
	return &messages.SlotsStatus{Name: "remote", TakenBytes: 5}, s.silent
}

// gathered returns the values of the metrics of a source, by name and labels.
func gathered(t *testing.T, from metrics.Source) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.Collector{Source: from, Runtime: supervise.System})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

// TestCollector checks metrics of each kind, and that those of actors that do not answer are left
// out.
func TestCollector(t *testing.T) {
	all := gathered(t, source{})
	for name, want := range map[string]float64{
		"troupe_adapter_pages m m-0 free": 3, "troupe_adapter_pages m m-0 used": 5,
		"troupe_kv_capacity_bytes hbm": 1000, "troupe_kv_capacity_bytes dram": 1000,
		"troupe_kv_taken_bytes hbm": 700, "troupe_kv_blocks free dram": 7,
		"troupe_turns_granted_total gpu-0 m-0": 9, "troupe_turns_time_share gpu-0 m-0": 0.25,
		"troupe_turns_wait_seconds_total gpu-0 m-0": 1.5, "troupe_turns_overdue_total gpu-0 m-0": 1,
		"troupe_turns_step_seconds_total gpu-0 m-0": 2.5,
		"troupe_kv_remote_in_flight_bytes":          5, "troupe_sequences_not_finite_total m m-0": 2,
		"troupe_host_cache_bytes weights": 400, "troupe_host_cache_bytes adapters": 300,
		"troupe_host_cache_images weights": 1, "troupe_host_cache_images adapters": 2,
		"troupe_host_cache_budget_bytes": 1000, "troupe_host_cache_adapters_refused_total": 4,
		"troupe_adapter_held m m-0": 1, "troupe_adapter_loads_total dram m m-0": 2,
		"troupe_adapter_loads_total disk m m-0": 1,
		"troupe_model_waiting_requests asleep":  3, "troupe_model_waiting_requests m": 0,
		"troupe_adapter_users m m-0": 3, "troupe_model_replicas m serving": 1, "troupe_model_replicas_wanted m": 2,
		"troupe_replica_running_sequences m m-0": 5, "troupe_replica_tokens_total cached m m-0": 14,
		"troupe_replica_migrated_sequences_total out m m-0": 15, "troupe_replica_kv_blocks m m-0 used": 6,
		"troupe_device_time_share gpu-0": 0.75, "troupe_device_roofline_share gpu-0": 0.5,
		"troupe_device_memory_bytes gpu-0 used": 70, "troupe_device_power_watts gpu-0": 300.5,
		"troupe_switches_total gpu-0 switched": 4, "troupe_switch_phase_seconds_total gpu-0 load": 2,
		"troupe_switch_loaded_bytes_total gpu-0": 8,
	} {
		if got, ok := all[name]; !ok || got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, unknown := range []string{
		"troupe_device_utilization gpu-0", "troupe_device_temperature_celsius gpu-0",
		"troupe_device_nvml_utilisation_percent gpu-0",
	} {
		if got, ok := all[unknown]; ok {
			t.Errorf("%s: %v, although it is not known", unknown, got)
		}
	}
	for name := range gathered(t, source{silent: errors.New("no answer")}) {
		if !strings.Contains(name, " dram") {
			t.Errorf("%s is of an actor that does not answer", name)
		}
	}
}
