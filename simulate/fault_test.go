package simulate

import (
	"strings"
	"testing"
	"time"

	"troupe/core/deployment"
	"troupe/workload"
)

// onTwoNodes returns a configuration with a device on each of two nodes.
func onTwoNodes(d Deployment, faults ...Fault) Config {
	all := devices(2)
	all[1].Node, all[1].Name = "b", "gpu-0"
	return Config{Duration: 10 * time.Minute, Devices: all, Deployments: []Deployment{d}, Faults: faults}
}

// long is a request that takes about a minute, with a prompt of 160 tokens.
func long(at time.Duration) workload.Request {
	return workload.Request{At: at, Prompt: 160, Output: 1700}
}

// TestNodeLoss checks that the sequences on a node that is lost go on elsewhere, after 1.2 s of silence, and compute
// their prompt and their output again. The node comes back without its replicas.
func TestNodeLoss(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 2), Fault{At: 30 * time.Second, Node: "a", For: time.Minute})
	result, record := simulate(t, cfg, []workload.Request{long(0), long(time.Millisecond)})
	if m := result.Models[0]; m.Finished != 2 || m.Refused != 0 || m.Interrupted != 1 || m.OutputTokens != 2*1700 {
		t.Errorf("%+v", m)
	}
	contains(t, record,
		`{"at":30.000000000,"event":"fault","node":"a","why":"the node is lost"}`,
		`{"at":30.000000000,"event":"interrupt","request":"r0","replica":"m-0","why":"its node is lost"}`,
		`{"at":31.200000000,"event":"route","request":"r0"`,
		`{"at":31.200000000,"event":"lost","replica":"m-0","node":"a"}`,
		`{"at":90.000000000,"event":"back","node":"a"}`)
	again := record[strings.Index(record, `{"at":31.200000000,"event":"route"`):]
	if !strings.Contains(again, `[["r1",`) || !strings.Contains(again, `["r0",0,255]`) {

		t.Error("the sequence is not computed from its beginning on the other node")
	}
}

// TestReplicaCrash checks that a replica that crashes keeps its weights, and that its sequences are computed again.
func TestReplicaCrash(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 1), Fault{At: 30 * time.Second, Replica: "m-0"},
		Fault{At: 40 * time.Second, Replica: "m-9"})
	result, record := simulate(t, cfg, []workload.Request{long(0)})
	if m := result.Models[0]; m.Finished != 1 || m.Interrupted != 1 || m.LoadCount != 0 || m.OutputTokens != 1700 {
		t.Errorf("%+v", m)
	}
	contains(t, record, // it starts its engine again
		`{"at":32.000000000,"event":"route","request":"r0"`,
		`{"at":40.000000000,"event":"fault","replica":"m-9","why":"none: the replica is not there"}`)
}

// TestDeviceLoss checks that the replicas of a device that is lost are placed elsewhere, and that it is used again
// after a self-test.
func TestDeviceLoss(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 1), Fault{At: 30 * time.Second, Device: "a/gpu-0", For: time.Minute})
	result, record := simulate(t, cfg, []workload.Request{long(0)})
	if m := result.Models[0]; m.Finished != 1 || m.Interrupted != 1 || m.LoadCount != 1 {
		t.Errorf("%+v", m)
	}
	contains(t, record,
		`{"at":30.000000000,"event":"quarantine","device":"a/gpu-0","why":"device lost: by a fault of the scenario"}`,
		`{"at":31.000000000,"event":"assign","replica":"m-1","why":"1 request waits, and no replica serves; b/gpu-0: `,
		`"event":"release","device":"a/gpu-0","why":"self-test passed"}`)
}

// TestHungStep checks that the sequences of a replica of which a step hangs go on elsewhere, and that it is replaced
// only if the step hangs for long.
func TestHungStep(t *testing.T) {
	for _, c := range []struct {
		hang     time.Duration
		replaced bool
	}{{20 * time.Second, false}, {2 * time.Minute, true}} {
		cfg := onTwoNodes(deploy("m", 2), Fault{At: 30 * time.Second, For: c.hang, Replica: "m-0", Hangs: true})
		result, record := simulate(t, cfg, []workload.Request{long(0), long(time.Millisecond)})
		if m := result.Models[0]; m.Finished != 2 || m.Interrupted != 1 {
			t.Errorf("%+v", m)
		}
		if got := strings.Contains(record, `"event":"replace","replica":"m-0"`); got != c.replaced {
			t.Errorf("hung for %v: replaced is %v\n%s", c.hang, got, lives(record))
		}
		if got := strings.Contains(record, `"event":"recover","replica":"m-0"`); got == c.replaced {
			t.Errorf("hung for %v: recovered is %v\n%s", c.hang, got, lives(record))
		}
	}
}

// TestCopiesShare checks that loads at the same time share the disk of a node, and not the links of its devices.
func TestCopiesShare(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(2), Nodes: []Node{{Name: "a", Disk: 1 << 28}},
		Deployments: []Deployment{sleeps("m", 0, "a/gpu-0"), sleeps("n", 0, "a/gpu-1")}}
	cfg.Deployments[1].WeightBytes = 2 << 30
	result, _ := simulate(t, cfg, []workload.Request{{Model: "m", Output: 1}, {Model: "n", Output: 1}})
	// Both have half of the disk for 8 s; then the second one has all of it for the other half of its bytes.
	if m, n := result.Models[0], result.Models[1]; !near(m.LoadSeconds, 8) || !near(n.LoadSeconds, 12) {
		t.Errorf("the loads took %v s and %v s", m.LoadSeconds, n.LoadSeconds)
	}
}

// TestHostCache checks that weights that leave a device are parked in the host cache, and come back from there.
func TestHostCache(t *testing.T) {
	cfg := Config{Duration: 30 * time.Minute, Devices: devices(1), Nodes: []Node{{Name: "a", HostCache: 16 << 30}},
		Deployments: []Deployment{sleeps("m", 0), sleeps("n", 0)}}
	for i := range cfg.Deployments {
		cfg.Deployments[i].WeightBytes = 5 << 30
	}
	var all []workload.Request
	for i := range 6 {
		all = append(all, workload.Request{At: time.Duration(i) * 4 * time.Minute, Model: []string{"m", "n"}[i%2],
			Output: 1})
	}
	result, record := simulate(t, cfg, all)
	for _, m := range result.Models {
		if m.Finished != 3 || m.LoadCount != 3 || m.from("disk").Count != 1 || m.from("host cache").Count != 2 ||
			!near(m.from("host cache").Seconds, 2*5*float64(1<<30)/DefaultLink) {
			t.Errorf("%+v", m)
		}
	}
	if strings.Contains(record, `"event":"evict"`) {
		t.Error("weights stayed on the device although the host cache has them")
	}
	if m, n := result.Models[0], result.Models[1]; m.Switches != 2 || n.Switches != 3 {
		t.Errorf("%d and %d switches\n%s", m.Switches, n.Switches, lives(record))
	}
}

// TestLevels checks that models on standby share a device, and that requests wake one without a load.
func TestLevels(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(1),
		Deployments: []Deployment{sleeps("m", 1), sleeps("n", 1)}}
	for i := range cfg.Deployments {
		cfg.Deployments[i].Level = deployment.OnStandby
		cfg.Deployments[i].IdleAfter = 0
	}
	result, record := simulate(t, cfg, []workload.Request{{At: time.Minute, Model: "m", Prompt: 100, Output: 2}})
	if m := result.Models[0]; m.Finished != 1 || m.Wakes != 1 || m.LoadCount != 0 || *m.TTFTP50 > 2 {
		t.Errorf("%+v %v\n%s", m, *m.TTFTP50, lives(record))
	}
}
