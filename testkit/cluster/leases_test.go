package cluster

import (
	"strings"
	"testing"

	"troupe/messages"
)

// TestCheckLeases checks that three faults are found: device memory without an owner, device memory
// whose owner runs elsewhere, and replicas without device memory.
func TestCheckLeases(t *testing.T) {
	replica := func(name, node string) map[string]*messages.ReplicaStatus {
		return map[string]*messages.ReplicaStatus{name: {Name: name, Node: node, Gpu: "gpu-0"}}
	}
	gpu := func(owner string) *messages.GpuStatus {
		return &messages.GpuStatus{
			Name:        "gpu-0",
			Node:        "n1",
			MemoryBytes: 10,
			FreeBytes:   4,
			Leases:      []*messages.GpuLease{{Owner: owner, Kind: "kv", Bytes: 6}},
		}
	}
	idle := func(free uint64) *messages.GpuStatus {
		return &messages.GpuStatus{Name: "gpu-0", MemoryBytes: 10, FreeBytes: free}
	}
	for name, c := range map[string]struct {
		gpu      *messages.GpuStatus
		replicas map[string]*messages.ReplicaStatus
		want     string // empty if nothing is found
	}{
		"owned":           {gpu("kjv-0"), replica("kjv-0", "n1"), ""},
		"no owner":        {gpu("kjv-0"), nil, `6 bytes of kv for "kjv-0"`},
		"owner elsewhere": {gpu("kjv-0"), replica("kjv-0", "n2"), `6 bytes of kv for "kjv-0"`},
		"no lease":        {idle(10), replica("kjv-0", "n1"), "kjv-0 has no lease"},
		"not listed":      {idle(4), nil, "4 of 10 bytes free"},
	} {
		err := checkLeases([]*messages.GpuStatus{c.gpu}, c.replicas)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckSequences checks that running and waiting sequences are found, and KV blocks and
// adapters in use.
func TestCheckSequences(t *testing.T) {
	for name, r := range map[string]*messages.ReplicaStatus{
		"running": {KvBlocks: 8, KvBlocksFree: 8, Running: 1},
		"waiting": {KvBlocks: 8, KvBlocksFree: 8, Waiting: 1},
		"blocks":  {KvBlocks: 8, KvBlocksFree: 7},
		"adapter": {Adapters: []*messages.AdapterHeld{{Name: "a", Sequences: 1}}},
		"in use":  {Adapters: []*messages.AdapterHeld{{State: messages.AdapterState_ADAPTER_STATE_ACTIVE}}},
	} {
		if checkSequences(map[string]*messages.ReplicaStatus{"kjv-0": r}) == nil {
			t.Errorf("%s: not found", name)
		}
	}
	cached := &messages.ReplicaStatus{KvBlocks: 8, KvBlocksFree: 8, KvBlocksCached: 3}
	if err := checkSequences(map[string]*messages.ReplicaStatus{"kjv-0": cached}); err != nil {
		t.Error(err)
	}
}
