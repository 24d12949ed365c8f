package simulate

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"troupe/workload"
)

// each has requests for a model at a number of minutes.
func each(model string, minutes ...float64) (all []workload.Request) {
	for _, m := range minutes {
		all = append(all, workload.Request{At: time.Duration(m * float64(time.Minute)), Model: model, Prompt: 100,
			Output: 5})
	}
	return all
}

// TestScaleCommand checks that an operator's number of replicas is followed, and that requests for a model that was
// stopped are refused until it is started again.
func TestScaleCommand(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 1))
	cfg.Commands = []Command{{At: time.Minute, Kind: Scale, Name: "m", Replicas: 2},
		{At: 2 * time.Minute, Kind: Scale, Name: "m"}, {At: 4 * time.Minute, Kind: Activate, Name: "m"}}
	result, record := simulate(t, cfg, each("m", 0.5, 1.5, 3, 5))
	if m := result.Models[0]; m.Finished != 3 || m.Refused != 1 || m.Starts != 3 {
		t.Errorf("%+v", m)
	}
	contains(t, record,
		`{"at":60.000000000,"event":"command","do":"scale","name":"m"}`,
		`{"at":60.000000000,"event":"scale","deployment":"m","from":1,"to":2,"why":"by a command"}`,
		`"event":"serve","replica":"m-1","device":"b/gpu-0"`,
		`{"at":120.000000000,"event":"scale","deployment":"m","from":2,"to":0,"why":"by a command"}`,
		`{"at":240.000000000,"event":"scale","deployment":"m","from":0,"to":2,"why":"by a command"}`)
}

// TestScaleBounds checks that a number of replicas out of bounds is refused, and that an equal minimum and maximum
// follow it.
func TestScaleBounds(t *testing.T) {
	d := deploy("m", 1)
	d.MinReplicas, d.MaxReplicas = 1, 2
	cfg := onTwoNodes(d)
	cfg.Commands = []Command{{At: time.Minute, Kind: Scale, Name: "m", Replicas: 3}}
	_, record := simulate(t, cfg, each("m", 2))
	contains(t, record, `{"at":60.000000000,"event":"command","do":"scale","name":"m","refused":"3 replicas are not `+
		`within min_replicas 1 and max_replicas 2"}`)
}

// TestPark checks that requests for a model that is parked are refused, and that its weights come back from the host
// cache.
func TestPark(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(1), Nodes: []Node{{Name: "a", HostCache: 4 << 30}},
		Deployments: []Deployment{deploy("m", 1)}, Commands: []Command{{At: time.Minute, Kind: Park, Name: "m"},
			{At: 3 * time.Minute, Kind: Activate, Name: "m"}}}
	result, record := simulate(t, cfg, each("m", 0.5, 2, 5))
	if m := result.Models[0]; m.Finished != 2 || m.Refused != 1 || m.LoadCount != 1 ||
		m.from(fromHostCache).Count != 1 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	contains(t, record, `"event":"scale","deployment":"m","from":1,"to":1,"level":"parked","why":"by a command"`,
		`"event":"scale","deployment":"m","from":1,"to":1,"level":"none","why":"by a command"`)
}

// TestStandby checks that a model on standby needs no load to serve again, and that one without replicas cannot be put
// on standby.
func TestStandby(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(1), Deployments: []Deployment{deploy("m", 1),
		sleeps("n", 0)}, Commands: []Command{{At: time.Minute, Kind: Standby, Name: "m"},
		{At: time.Minute, Kind: Standby, Name: "n"}, {At: 3 * time.Minute, Kind: Activate, Name: "m"}}}
	result, record := simulate(t, cfg, each("m", 0.5, 2, 5))
	if m := result.Models[0]; m.Finished != 2 || m.Refused != 1 || m.LoadCount != 0 || m.Starts != 0 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	contains(t, record, `"do":"standby","name":"n","refused":"model n is asleep, so it cannot change its level"}`)
}

// TestDrain checks that the replica of a node that drains moves to another one, and not back while it drains.
func TestDrain(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 1))
	cfg.Commands = []Command{{At: time.Minute, Kind: Drain, Name: "a"}, {At: 3 * time.Minute, Kind: Scale, Name: "m",
		Replicas: 2}, {At: 4 * time.Minute, Kind: Undrain, Name: "a"}}
	result, record := simulate(t, cfg, each("m", 0.5, 1, 2, 3, 5))
	if m := result.Models[0]; m.Finished != 5 || m.Interrupted != 0 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	_, drained, _ := strings.Cut(record, `"do":"drain","name":"a"}`)
	while, after, undrained := strings.Cut(drained, `{"at":240.000000000,"event":"command","do":"undrain","name":"a"}`)
	const start = `"device":"a/gpu-0"}`
	if strings.Contains(while, start) || !strings.Contains(after, start) || !undrained {
		t.Errorf("a replica started on a while it drained, or none after that\n%s", lives(record))
	}
	contains(t, record, `"event":"start","replica":"m-1","device":"b/gpu-0"`, `"event":"stop","replica":"m-0"`)
}

// TestPreempt checks that the sequences of a replica that is preempted may go on until the deadline, if they cannot
// migrate by then, and are then computed elsewhere, that its name comes back with the next command, and that the last
// replica stays.
func TestPreempt(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 2))
	cfg.Deployments[0].MaxSequences = 1
	cfg.Commands = []Command{{At: 30 * time.Second, Kind: Preempt, Name: "m-0", Deadline: 2 * time.Second},
		{At: time.Minute, Kind: Preempt, Name: "m-1"}, {At: time.Minute, Kind: Preempt, Name: "m-7"},
		{At: 2 * time.Minute, Kind: Activate, Name: "m"}}
	result, record := simulate(t, cfg, []workload.Request{long(0), long(time.Millisecond)})
	if m := result.Models[0]; m.Finished != 2 || m.Refused != 0 || m.OutputTokens != 2*1700 || m.Starts != 1 ||
		m.Interrupted != 1 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	if freed := regexp.MustCompile(`{"at":32\.[0-9]*,"event":"preempting","replica":"m-0","phase":"freeing"}`); !freed.
		MatchString(record) {
		t.Errorf("the memory was not freed at the deadline\n%s", lives(record))
	}
	contains(t, record,
		`{"at":30.000000000,"event":"command","do":"preempt","name":"m-0"}`,
		`"event":"preempting","replica":"m-0","phase":"fencing"`,
		`"event":"preempting","replica":"m-0","phase":"ended"`,
		`"do":"preempt","name":"m-1","refused":"without m-1, model m would have 0 replicas, and its minimum is 1;`,
		`"do":"preempt","name":"m-7","refused":"the replica is not there"}`)
}
