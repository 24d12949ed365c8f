package report

import (
	"strings"
	"testing"

	"troupe/recording"
)

// ran returns a replica on a device of node n that has run steps for some time.
func ran(model, name, device string, seconds float64) recording.Replica {
	return recording.Replica{Model: model, Name: name, Node: "n", Device: device, State: "serving",
		StepSeconds: seconds}
}

// recorded has two models on two devices, one of which is started again in the second window, and a last
// window that is too short.
func recorded() *recording.Recording {
	return &recording.Recording{
		Snapshot: recording.Snapshot{
			Nodes: []recording.Node{{Name: "n", Devices: []recording.Device{
				{Name: "0", Software: true}, {Name: "1"},
			}}},
			Deployments: []recording.Deployment{{Name: "a", WeightBytes: 1 << 30}, {Name: "b"}},
			Replicas:    []recording.Replica{ran("a", "a-0", "0", 100), ran("b", "b-0", "1", 7)},
		},
		Samples: []recording.Sample{
			{At: 10, Replicas: []recording.Replica{ran("a", "a-0", "0", 108), ran("b", "b-0", "1", 7)}},
			{At: 20, Replicas: []recording.Replica{ran("a", "a-0", "0", 110), ran("b", "b-0", "1", 1)}},
			{At: 30, Replicas: []recording.Replica{ran("a", "a-0", "0", 110), ran("a", "a-1", "1", 2)}},
		},
		End: recording.End{At: 32, Replicas: []recording.Replica{
			ran("a", "a-0", "0", 110), ran("a", "a-1", "1", 6),
		}},
		Complete: true,
	}
}

// TestRecorded checks the devices, peaks and averages of a recording.
func TestRecorded(t *testing.T) {
	price := 1.0
	r, err := Recorded(recorded(), &price)
	if err != nil {
		t.Fatal(err)
	}
	a, b := r.GetModels()[0], r.GetModels()[1]
	// a uses 0.8, 0.2 and 6/12 of a device, and has two in the end; b uses 0, 0.1 and 0 of one
	if a.GetDevices().GetValue() != 2 || a.GetPeak().GetValue() != 0.4 || a.GetAverage().GetValue() != 0.25 ||
		a.GetBytes().GetValue() != 1<<30 {
		t.Errorf("%v", a)
	}
	if b.GetDevices().GetValue() != 1 || b.GetPeak().GetValue() != 0.1 || !strings.Contains(b.GetBytes().GetUnknown(),
		"no node had its folder") {
		t.Errorf("%v", b)
	}
	if r.GetSoftwareDevices() != 1 || r.GetObserved().AsDuration().Seconds() != 32 {
		t.Errorf("%v", r)
	}
	cut := recorded()
	cut.Complete = false
	if _, err := Recorded(cut, nil); err == nil || !strings.Contains(err.Error(), "record again") {
		t.Error(err)
	}
}
