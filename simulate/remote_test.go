package simulate

import (
	"strings"
	"testing"
	"time"

	"troupe/workload"
)

// remotely returns a configuration with a replica on each of two nodes, whose KV blocks of 1 MiB
// the other one may fetch over a network with 1 GiB per second. The prompt of a request takes 1 ms
// a token.
func remotely(dram int, faults ...Fault) Config {
	d := deploy("m", 2)
	d.KVBlocks, d.ContextTokens, d.MaxSequences = 400, 2048, 1
	d.Times = map[string]StepTimer{"software": linear{fixed: 10 * time.Millisecond, prompt: time.Millisecond}}
	cfg := onTwoNodes(d, faults...)
	for i := range cfg.Devices {
		cfg.Devices[i].Up, cfg.Devices[i].Down = Link{BytesPerSecond: 1 << 34}, Link{BytesPerSecond: 1 << 34}
	}
	for _, name := range []string{"a", "b"} {
		cfg.Nodes = append(cfg.Nodes, Node{Name: name, Network: 1 << 30,
			Tiers: Tiers{DRAM: int64(dram) << 20, Remote: 1 << 30, Watermark: 0.5}})
	}
	return cfg
}

// prompt is a request whose prompt of 1,024 tokens is that of all requests of a number, and their
// own.
func prompt(at time.Duration, number uint64, output int) workload.Request {
	return workload.Request{At: at, Prompt: 1024, Output: output, PrefixBlock: 1024, Prefix: []uint64{number << 7}}
}

// others are requests after which m-1 has computed the prompts 2 and 4, and runs one more sequence
// until 15 s.
func others(more ...workload.Request) []workload.Request {
	return append([]workload.Request{prompt(0, 1, 5), prompt(time.Millisecond, 2, 5), prompt(3*time.Second, 3, 5),
		prompt(3001*time.Millisecond, 4, 5), prompt(6*time.Second, 2, 900)}, more...)
}

// TestBlocksAreFetched checks that a prompt that the replica on another node has computed is
// fetched from there as soon as the path is measured, that this takes as long as the network does,
// and that it is computed if the network is slow.
func TestBlocksAreFetched(t *testing.T) {
	all := others(prompt(8*time.Second, 2, 5), prompt(11*time.Second, 4, 5))
	result, record := simulate(t, remotely(0), all)
	if m := result.Models[0]; m.Finished != 7 || *m.RestoredRemote != (4+63)*16 || *m.Restores != 2 {
		t.Errorf("%d ended, %d tokens fetched by %d requests\n%s", m.Finished, *m.RestoredRemote, *m.Restores, record)
	}
	contains(t, record, // 4 and 63 blocks of 1 MiB, and a step with the rest of the prompt
		`{"at":8.000000000,"event":"restore","replica":"m-0","request":"r5","blocks":4,"arrive":4,"why":"path from `+
			`replica m-1 on b not measured yet"}`,
		`{"at":8.003906250,"event":"step","replica":"m-0"`,
		`{"at":11.061523438,"event":"step","replica":"m-0","step":25,"prompt":16,`)
	slow := remotely(0)
	slow.Nodes[1].Network = 1 << 23
	result, _ = simulate(t, slow, all)
	if m := result.Models[0]; m.Finished != 7 || *m.RestoredRemote != 4*16 || *m.Avoided != 1 {
		t.Errorf("slow: %d ended, %d tokens fetched, %d avoided", m.Finished, *m.RestoredRemote, *m.Avoided)
	}
}

// TestTiersAreFetched checks that blocks that are no longer on the device of m-1 are fetched from
// the host memory of its node, unless the other node has no remote tier.
func TestTiersAreFetched(t *testing.T) {
	cfg := remotely(1024)
	cfg.Deployments[0].KVBlocks = 140 // one prompt and the long output
	all := others(prompt(9*time.Second, 4, 5))
	result, record := simulate(t, cfg, all)
	if m := result.Models[0]; *m.RestoredRemote != 4*16 {
		t.Errorf("%d tokens fetched\n%s", *m.RestoredRemote, record)
	}
	contains(t, record, `{"at":9.000000000,"event":"restore","replica":"m-0","request":"r5","blocks":4,"arrive":4,`+
		`"why":"path from dram on b not measured yet"}`, `{"at":9.003906250,"event":"step","replica":"m-0"`)
	cfg.Faults = []Fault{{At: 7 * time.Second, For: 1300 * time.Millisecond, Network: "b"}}
	result, record = simulate(t, cfg, others(prompt(8400*time.Millisecond, 1, 1000), prompt(18*time.Second, 4, 5)))
	if m := result.Models[0]; m.Finished != 7 || m.Interrupted != 1 {
		t.Errorf("%d ended, %d interrupted", m.Finished, m.Interrupted)
	}
	contains(t, record, // after the node has joined again
		`{"at":18.000000000,"event":"restore","replica":"m-0","request":"r6","blocks":4,"arrive":4,`+
			`"why":"path from dram on b`)
	cfg.Nodes[0].Tiers.Remote, cfg.Faults = 0, nil
	result, record = simulate(t, cfg, all)
	if m := result.Models[0]; m.Finished != 6 || *m.RestoredRemote != 0 {
		t.Errorf("without a remote tier: %d tokens fetched\n%s", *m.RestoredRemote, record)
	}
}

// TestFetchFaults checks that blocks are computed if the nodes do not reach each other, or no
// longer do while blocks are fetched. What a replica has sent before it crashes counts, and a
// network that is mended in time delivers the rest.
func TestFetchFaults(t *testing.T) {
	at := 11*time.Second + 30*time.Millisecond
	all := others(prompt(8*time.Second, 2, 5), prompt(11*time.Second, 4, 5))
	for name, c := range map[string]struct {
		fault   Fault
		fetched uint64 // blocks of the last request
	}{
		"cut before":    {Fault{At: 10 * time.Second, For: 4 * time.Second, Between: [2]string{"a", "b"}}, 0},
		"request lost":  {Fault{At: 10 * time.Second, For: 1100 * time.Millisecond, Between: [2]string{"a", "b"}}, 0},
		"cut meanwhile": {Fault{At: at, For: 4 * time.Second, Between: [2]string{"a", "b"}}, 0},
		"a short cut":   {Fault{At: at, For: 500 * time.Millisecond, Network: "b"}, 63},
		"node":          {Fault{At: at, Node: "b"}, 0},
		"crash":         {Fault{At: at, Replica: "m-1"}, 30},
	} {
		result, record := simulate(t, remotely(0, c.fault), all)
		m := result.Models[0]
		if m.Finished != 7 || *m.RestoredRemote != (4+c.fetched)*16 {
			t.Errorf("%s: %d ended, %d tokens fetched\n%s", name, m.Finished, *m.RestoredRemote,
				record[strings.Index(record, `{"at":11.0000`):])
		}
	}
}

// TestFetchOverSlowNetwork checks that blocks take longer while the network of a node, or the one
// between both, is slow: 63 blocks at half of 1 GiB per second.
func TestFetchOverSlowNetwork(t *testing.T) {
	all := others(prompt(8*time.Second, 2, 5), prompt(11*time.Second, 4, 5))
	for _, f := range []Fault{{Network: "b"}, {Between: [2]string{"b", "a"}}} {
		f.At, f.Slow = 10*time.Second, 2
		_, record := simulate(t, remotely(0, f), all)
		contains(t, record, `{"at":11.123046875,"event":"step","replica":"m-0","step":25,"prompt":16,`)
	}
}
