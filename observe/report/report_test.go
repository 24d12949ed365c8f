package report

import (
	"strings"
	"testing"
	"time"

	"troupe/core/capacity"
	"troupe/messages"
	"troupe/workload"
)

func replica(name, gpu string, state messages.ReplicaState) *messages.ReplicaStatus {
	return &messages.ReplicaStatus{Name: name, Node: "n1", Gpu: gpu, State: state}
}

func deployed(name string, replicas ...*messages.ReplicaStatus) *messages.DeploymentStatus {
	return &messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: name}, Replicas: replicas}
}

const (
	serving = messages.ReplicaState_REPLICA_STATE_SERVING
	standby = messages.ReplicaState_REPLICA_STATE_STANDBY
)

// gpus are two devices that answer, one of which is shared, a quarantined one, and one of a lost node.
func gpus(shares ...float64) []*messages.GpuStatus {
	return []*messages.GpuStatus{
		{Node: "n1", Name: "gpu-0", Simulated: true, Turns: []*messages.GpuTurns{
			{Replica: "a-0", Share: shares[0]}, {Replica: "b-0", Share: shares[1]},
		}, Weights: []*messages.GpuWeights{{Model: "a", Bytes: 1 << 30}, {Model: "b", Bytes: 1 << 20, Loading: true}}},
		{Node: "n1", Name: "gpu-1", Turns: []*messages.GpuTurns{{Replica: "a-1", Share: shares[2]}}},
		{Node: "n1", Name: "gpu-2", State: messages.GpuState_GPU_STATE_QUARANTINED},
		{Node: "n2", Name: "gpu-0", Unreachable: "no answer"},
	}
}

// TestLive checks the figures of models that share a device, use two, have none, or one that does not answer.
func TestLive(t *testing.T) {
	lost := replica("c-0", "gpu-0", serving)
	lost.Node = "n2"
	price := 2.0
	r := Of([]*messages.DeploymentStatus{
		deployed("d", replica("d-0", "gpu-1", standby)), deployed("c", lost),
		deployed("b", replica("b-0", "gpu-0", serving), replica("b-1", "gpu-2", serving)),
		deployed("a", replica("a-0", "gpu-0", serving), replica("a-1", "gpu-1", serving)),
	}, gpus(0.5, 0.25, 0.25), &price)
	table := Table(r)
	for _, want := range []string{
		"a         1 GiB    1        2     -     38 %        30.0     96.00            60.00\n",
		"b             -    1        2     -        -           -     96.00                -\n",
		"c             -    1        1     -        -           -     48.00                -\n",
		"d             -    1        0     -        -         0.0      0.00             0.00\n",
		"static        5        -           -    240.00                -\n",
		"cluster       2        -           -     96.00                -\n",
		"\n- bytes of b: no device has the weights\n",
		"\n- average of b: n1/gpu-2 does not report the time of b-1 yet\n",
		"\n- average of c: node n2: no answer\n", "\n- average of d: no replica\n",
		"\n- peak of a: one moment has no peak; troupe report --for takes several\n", "host memory: 1.\n",
	} {
		squeezed := strings.Join(strings.Fields(want), " ")
		if got := strings.Join(strings.Fields(table), " "); !strings.Contains(got, squeezed) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// TestCombine checks peaks and averages of samples in which the use moves from one model to another, which is
// removed in the last one.
func TestCombine(t *testing.T) {
	a := deployed("a", replica("a-0", "gpu-0", serving), replica("a-1", "gpu-1", serving))
	b := deployed("b", replica("b-0", "gpu-0", serving))
	sample := func(models []*messages.DeploymentStatus, shares ...float64) *messages.CapacityReport {
		return Of(models, gpus(shares...), nil)
	}
	r := Combine([]*messages.CapacityReport{
		sample([]*messages.DeploymentStatus{a, b}, 0.5, 0.25, 0.5), sample([]*messages.DeploymentStatus{a, b}, 0, 1, 0),
		sample([]*messages.DeploymentStatus{a}, 0.5, 0, 0),
	}, time.Minute, nil)
	for _, want := range []string{
		"a 1 GiB 1 2 50 % 25 % 36.0 ", "b - 1 1 100 % 42 % 14.0 ", "static 3 31 % 50.0", "cluster 2 46 % 26.0",
		"shared 2 46 % 26.0", "averaged over 1m0s.",
	} {
		if got := strings.Join(strings.Fields(Table(r)), " "); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, Table(r))
		}
	}
}

// TestTrace checks what a trace must have: a span, and described models.
func TestTrace(t *testing.T) {
	day := Described{Model: capacity.Model{Name: "day", Devices: capacity.Known(2)}, PromptRate: 100, OutputRate: 10}
	one := workload.Request{Model: "day", Prompt: 100, Output: 10}
	later := workload.Request{At: 8 * time.Second, Prompt: 100, Output: 50}
	in, err := Trace([]Described{day}, workload.Of([]workload.Request{one, later}), 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if peak, _ := in.Models[0].Peak.Value(); peak != 0.75 { // 6 of 2 * 4 device-seconds, in the second window
		t.Errorf("peak %v", peak)
	}
	if average, _ := in.Models[0].Average.Value(); average != 0.5 {
		t.Errorf("average %v", average)
	}
	slow := day
	slow.OutputRate = 0
	if in, err = Trace([]Described{slow}, workload.Of([]workload.Request{one, later}), time.Minute); err != nil ||
		in.Models[0].Peak.Why() != "its speeds are not given" {
		t.Errorf("%+v, %v", in.Models, err)
	}
	for want, trace := range map[string][]workload.Request{
		"covers no time": {one}, "covers no": nil, "for model night": {one, {At: 1, Model: "night"}},
	} {
		if _, err := Trace([]Described{day}, workload.Of(trace), time.Second); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Trace([]Described{day, {Model: capacity.Model{Name: "x"}}}, workload.Of([]workload.Request{later}),
		time.Second); err == nil || !strings.Contains(err.Error(), "names no models") {
		t.Error(err)
	}
}
