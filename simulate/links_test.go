package simulate

import (
	"strings"
	"testing"
	"time"

	"troupe/core/loadsource"
	"troupe/workload"
)

// TestNetworkCut checks that the sequences of a node that is cut off go on elsewhere, that its replica goes on without
// them, and that it serves again without a load once the network is mended.
func TestNetworkCut(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 2), Fault{At: 30 * time.Second, Network: "a", For: time.Minute})
	result, record := simulate(t, cfg, []workload.Request{long(0), long(time.Millisecond), long(2 * time.Minute),
		long(2*time.Minute + time.Millisecond)})
	m := result.Models[0]
	if m.Finished != 4 || m.Interrupted != 1 || m.OutputTokens != 4*1700 || m.LoadCount != 0 {
		t.Errorf("%+v", m)
	}
	contains(t, record,
		`{"at":30.000000000,"event":"fault","network":"a","why":"it is cut"}`,
		`{"at":31.200000000,"event":"lost","replica":"m-0","node":"a"}`,
		`{"at":90.000000000,"event":"mend","network":"a"}`)
	for _, want := range []string{`"event":"interrupt","request":"r0","replica":"m-0"`,
		`"event":"serve","replica":"m-2"`, `"event":"stop","replica":"m-2"`,
		`"event":"finish","replica":"m-0"`} { // which served none before the cut
		if !strings.Contains(record, want) {
			t.Errorf("no %s in\n%s", want, lives(record))
		}
	}
}

// TestSameNameBeyondCut checks that a replica starts on another node while one of the same name goes on beyond a cut,
// and that only the earlier one stops when the network is mended. The planner withdraws a deployment without a minimum,
// and so uses the name again.
func TestSameNameBeyondCut(t *testing.T) {
	cfg := onTwoNodes(sleeps("m", 1), Fault{At: 30 * time.Second, Network: "a", For: 10 * time.Second})
	cfg.Deployments[0].IdleAfter = time.Hour
	result, record := simulate(t, cfg, []workload.Request{{At: 31 * time.Second, Prompt: 10, Output: 3},
		{At: 2 * time.Minute, Prompt: 10, Output: 3}})
	if m := result.Models[0]; m.Finished != 2 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	if strings.Count(record, `"event":"start","replica":"m-0","device":"b/gpu-0"`) != 1 ||
		strings.Count(record, `"event":"finish","replica":"m-0"`) != 2 {
		t.Errorf("not one m-0 on b that serves\n%s", lives(record))
	}
}

// TestShortCut checks that a sequence stays where it is if the network is mended before its session gives up, and that
// no token is lost.
func TestShortCut(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 1), Fault{At: 30 * time.Second, Network: "a", For: 500 * time.Millisecond})
	requests := []workload.Request{long(0), {At: 30*time.Second + time.Millisecond, Prompt: 10, Output: 3}}
	result, record := simulate(t, cfg, requests)
	m := result.Models[0]
	if m.Finished != 2 || m.Interrupted != 0 || m.OutputTokens != 1703 || m.PromptTokens != 170 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	if strings.Count(record, `"event":"route"`) != 2 {
		t.Errorf("it was routed again\n%s", record)
	}
	cfg.Faults = nil
	without, _ := simulate(t, cfg, requests)
	if w := without.Models[0]; w.Steps > m.Steps+3 || m.Steps > w.Steps+3 {
		t.Errorf("%d steps with the cut, and %d without it", m.Steps, w.Steps)
	}
}

// TestBlocksAfterCut checks that the router knows the KV blocks of a replica again once its network is mended.
func TestBlocksAfterCut(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 2), Fault{At: 30 * time.Second, Network: "b", For: time.Minute})
	of := func(at time.Duration, hash uint64) workload.Request {
		return workload.Request{At: at, Prompt: 400, Output: 5, Prefix: []uint64{hash, 2, 3, 4}, PrefixBlock: 96}
	}
	result, record := simulate(t, cfg, []workload.Request{of(0, 1), of(time.Millisecond, 9), of(2*time.Minute, 9)})
	if hits := *result.Models[0].KVHits; !near(hits, 384./1200) {
		t.Errorf("%v of the tokens were found\n%s", hits, lives(record))
	}
}

// TestFirstTokenInCut checks that a first token that was computed during a cut arrives when the network is mended.
func TestFirstTokenInCut(t *testing.T) {
	cfg := onTwoNodes(deploy("m", 1), Fault{At: 30 * time.Second, Network: "a", For: 500 * time.Millisecond})
	at := 30*time.Second - time.Millisecond
	result, record := simulate(t, cfg, []workload.Request{{At: at, Prompt: 10, Output: 90}})
	if m := result.Models[0]; m.Finished != 1 || !near(*m.TTFTP50, 0.501) {
		t.Errorf("%+v, TTFT %v\n%s", m, *m.TTFTP50, record)
	}
}

// TestSlowDisk checks that a load takes longer while the disk is slow: 1 GiB with 256 MiB/s, of which 2 s are at a
// quarter of it.
func TestSlowDisk(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 0)},
		Nodes:  []Node{{Name: "a", Disk: 1 << 28}},
		Faults: []Fault{{At: time.Second, Disk: "a", Slow: 4, For: 2 * time.Second}}}
	result, record := simulate(t, cfg, []workload.Request{{Output: 1}})
	if m := result.Models[0]; !near(m.LoadSeconds, 4+1.5) {
		t.Errorf("the load took %v s", m.LoadSeconds)
	}
	contains(t, record, `{"at":1.000000000,"event":"fault","disk":"a","why":"it is 4 times slower"}`,
		`{"at":3.000000000,"event":"mend","disk":"a"}`)
}

// TestSlowLink checks that copies of adapters and KV blocks that begin while the link of a device is slow take longer,
// and so do loads from the host cache.
func TestSlowLink(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 0)},
		Nodes: []Node{{Name: "a", HostCache: 8 << 30}}, Faults: []Fault{{Link: "a/gpu-0", Slow: 8}}}
	cfg.Devices[0].Costs.Link, cfg.Devices[0].Up.BytesPerSecond = 1<<30, 1<<30
	s, err := start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.fail(cfg.Faults[0])
	d := s.devices[0]
	d.link.users = 1
	if got := d.up.time(1 << 30); got != 8*time.Second || d.down.time(0) != 0 || d.link.share() != 1<<27 {
		t.Errorf("a copy takes %v, and weights have %v bytes per second", got, d.link.share())
	}
}

// TestNetworkBetweenNodes checks that a load from another node stops if the network between the two is cut, and uses
// the disk after 10 s.
func TestNetworkBetweenNodes(t *testing.T) {
	for _, c := range []struct {
		lasts, want time.Duration
		source      loadsource.Kind
	}{
		{5 * time.Second, 13 * time.Second, "device of another node"},       // 8 s and the cut
		{time.Minute, time.Second + stallTimeout + 512*time.Second, "disk"}, // it begins at 21 s
	} {
		cfg := onTwoNodes(deploy("m", 1, "a/gpu-0"), Fault{At: 22 * time.Second, Between: [2]string{"b", "a"},
			For: c.lasts})
		cfg.Nodes = []Node{{Name: "a", Network: 1 << 27}, {Name: "b", Network: 1 << 28, Disk: 1 << 21}}
		n, small := sleeps("n", 0, "b/gpu-0"), sleeps("small", 0, "b/gpu-0")
		cfg.Deployments[0].Weights, n.Weights, small.WeightBytes = "m", "m", 1<<21
		cfg.Deployments, cfg.Duration = append(cfg.Deployments, n, small), 20*time.Minute
		result, record := simulate(t, cfg, []workload.Request{
			{Model: "small", Output: 1}, // by which the node learns how slow the disk is
			{At: 20 * time.Second, Model: "n", Output: 1}})
		opens := DefaultOpen + DefaultCapture
		if m := result.Models[1]; m.LoadCount != 1 || m.from(c.source).Count != 1 ||
			!near(m.StartSeconds, (c.want+opens).Seconds()) {
			t.Errorf("cut for %v: %+v\n%s", c.lasts, m, lives(record))
		}
	}
}
