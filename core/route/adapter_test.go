package route

import (
	"fmt"
	"testing"
)

// replicaWithAdapter returns a serving replica with an adapter at the given residence.
func replicaWithAdapter(name string, where Residence, running, waiting int) Replica {
	r := serving(name)
	r.Running, r.Waiting = running, waiting
	if where != OnDisk {
		r.Adapters = map[string]Residence{"psalms@7": where}
	}
	return r
}

func TestWhyExplainsAdapterChoice(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas []Replica
		adapter  string
		want     string
	}{
		"on the GPU": {
			[]Replica{
				replicaWithAdapter("m-0", OnDisk, 0, 0), replicaWithAdapter("m-1", InDRAM, 0, 0),
				replicaWithAdapter("m-2", OnGPU, 0, 0),
			},
			"psalms@7",
			"m-2 on node-2: adapter psalms@7 on its GPU, 0 of 64 prompt tokens cached, 0 sequences ahead; " +
				"m-1 would copy the adapter from DRAM and compute 64",
		},
		"in host memory": {
			[]Replica{replicaWithAdapter("m-0", OnDisk, 0, 0), replicaWithAdapter("m-1", InDRAM, 0, 0)},
			"psalms@7",
			"m-1 on node-1: adapter psalms@7 in its DRAM or on its way there, 0 of 64 prompt tokens cached, " +
				"0 sequences ahead; m-0 would read the adapter from disk and compute 64",
		},
		"of another revision": {
			[]Replica{replicaWithAdapter("m-0", OnDisk, 0, 0), replicaWithAdapter("m-1", OnGPU, 1, 0)},
			"psalms@8",
			"m-0 on node-0: adapter psalms@8 to be read from disk, 0 of 64 prompt tokens cached, 0 sequences ahead; " +
				"m-1 would read the adapter from disk and compute 64 behind 1 sequence",
		},
		"its replica is busy": {
			[]Replica{replicaWithAdapter("m-0", OnDisk, 0, 0), replicaWithAdapter("m-1", OnGPU, 4, 3)},
			"psalms@7",
			"m-0 on node-0: adapter psalms@7 to be read from disk, 0 of 64 prompt tokens cached, 0 sequences ahead; " +
				"m-1 would compute 64 behind 7 sequences",
		},
		"its replica has more than its share": {
			[]Replica{replicaWithAdapter("m-0", OnDisk, 0, 0), replicaWithAdapter("m-1", OnGPU, 33, 0)},
			"psalms@7",
			"m-0 on node-0: adapter psalms@7 to be read from disk, 0 of 64 prompt tokens cached, 0 sequences ahead; " +
				"m-1 has the adapter and 0 cached but has more than its share, 33 sequences",
		},
		"the base model": {
			[]Replica{replicaWithAdapter("m-0", OnDisk, 0, 0), replicaWithAdapter("m-1", OnGPU, 1, 0)},
			"",
			"m-0 on node-0: 0 of 64 prompt tokens cached, 0 sequences ahead; m-1 would compute 64 behind 1 sequence",
		},
	} {
		routes := NewRoutes()
		for _, r := range tc.replicas {
			routes.Update(r)
		}
		if got := routes.Route(Request{ID: "r", Tokens: 64, Adapter: tc.adapter}).Why(); got != tc.want {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, got, tc.want)
		}
	}
}

// TestPopularAdapterSpreads sends a burst of requests for an adapter that no replica has. It starts
// on one replica and spreads to others as that one fills up. A few requests stay on one replica.
func TestPopularAdapterSpreads(t *testing.T) {
	for _, tc := range []struct{ requests, least, most int }{{4, 1, 1}, {64, 4, 4}} {
		routes, got := NewRoutes(), map[string]int{}
		for i := range 4 {
			routes.Update(serving(fmt.Sprintf("m-%d", i)))
		}
		for i := range tc.requests {
			got[routes.Route(Request{ID: fmt.Sprint(i), Tokens: 64, Adapter: "psalms@7"}).Name]++
		}
		if len(got) < tc.least || len(got) > tc.most {
			t.Errorf("%d requests went to %v", tc.requests, got)
		}
	}
}
