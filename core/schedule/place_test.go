package schedule

import (
	"strings"
	"testing"

	"troupe/core/hbm"
)

func TestPlace(t *testing.T) {
	const gib = 1 << 30
	for name, tc := range map[string]struct {
		gpus []GPU
		want string
		why  string // a substring
	}{
		"most free memory": {
			[]GPU{{Name: "a", Memory: hbm.Budget{Total: 2 * gib}}, {Name: "b", Memory: hbm.Budget{Total: 3 * gib}}},
			"b", "b has 3 GiB to spare, of 2 of 2 with room",
		},
		"ties by name": {
			[]GPU{{Name: "b", Memory: hbm.Budget{Total: 2 * gib}}, {Name: "a", Memory: hbm.Budget{Total: 2 * gib}}},
			"a", "",
		},
		"ties by node": {
			[]GPU{
				{Node: "y", Name: "a", Memory: hbm.Budget{Total: 2 * gib}},
				{Node: "x", Name: "b", Memory: hbm.Budget{Total: 2 * gib}},
			},
			"x/b", "",
		},
		"away from its siblings": {
			[]GPU{
				{Name: "a", Memory: hbm.Budget{Total: 3 * gib}, Siblings: 1},
				{Name: "b", Memory: hbm.Budget{Total: 2 * gib}},
			},
			"b", "",
		},
		"not on a draining GPU": {
			[]GPU{
				{Name: "a", Memory: hbm.Budget{Total: 3 * gib}, Draining: true},
				{Name: "b", Memory: hbm.Budget{Total: 2 * gib}},
			},
			"b", "",
		},
		"not on a quarantined GPU": {
			[]GPU{
				{Name: "a", Memory: hbm.Budget{Total: 3 * gib}, Quarantined: true, Draining: true},
				{Name: "b", Memory: hbm.Budget{Total: 1}},
			},
			"", "1 of 2 short of memory by 1024 MiB or more; 1 quarantined",
		},
		"not on a silent GPU": {
			[]GPU{
				{Name: "a", Memory: hbm.Budget{Total: 3 * gib}, Silent: true},
				{Name: "b", Memory: hbm.Budget{Total: 2 * gib}},
			},
			"b", "of 1 of 2 with room",
		},
		"over nodes before GPUs": {
			[]GPU{
				{Node: "x", Name: "0", Memory: hbm.Budget{Total: gib}, Siblings: 1},
				{Node: "x", Name: "1", Memory: hbm.Budget{Total: 9 * gib}},
				{Node: "y", Name: "0", Memory: hbm.Budget{Total: gib}},
			},
			"y/0",
			"y/0 has 1 GiB to spare, of 3 of 3 with room; it has the fewest of the model's replicas, 0, and y has 0",
		},
		"siblings without room": {
			[]GPU{
				{Node: "x", Name: "0", Siblings: 1}, {Node: "x", Name: "1", Memory: hbm.Budget{Total: gib}},
				{Node: "y", Name: "0", Memory: hbm.Budget{Total: gib}, Siblings: 2},
			},
			"x/1", "it has the fewest of the model's replicas, 0, and x has 1",
		},
		"a GPU of its own before a node": {
			[]GPU{
				{Node: "x", Name: "0", Siblings: 1}, {Node: "x", Name: "1", Siblings: 1},
				{Node: "x", Name: "2", Memory: hbm.Budget{Total: gib}},
				{Node: "y", Name: "0", Memory: hbm.Budget{Total: 9 * gib}, Siblings: 1},
			},
			"x/2", "",
		},
		"over GPUs of a node": {
			[]GPU{
				{Node: "x", Name: "0", Memory: hbm.Budget{Total: 9 * gib}, Siblings: 1},
				{Node: "x", Name: "1", Memory: hbm.Budget{Total: gib}},
			},
			"x/1", "",
		},
		"near the weights": {
			[]GPU{
				{Node: "v", Name: "0", Memory: hbm.Budget{Total: 9 * gib}},
				{Node: "w", Name: "0", Memory: hbm.Budget{Total: 8 * gib}, Weights: InFolder},
				{Node: "x", Name: "0", Memory: hbm.Budget{Total: 2 * gib}, Weights: InHostCache},
				{Node: "y", Name: "0", Memory: hbm.Budget{Total: 3 * gib}, Weights: InDiskImage},
			},
			"x/0", "x/0 has 2 GiB to spare, of 4 of 4 with room; its node has the weights in host memory",
		},
		"in host memory, but with a replica": {
			[]GPU{
				{Name: "0", Memory: hbm.Budget{Total: 9 * gib, Replicas: 1}, Weights: InHostCache},
				{Name: "1", Memory: hbm.Budget{Total: 2 * gib}, Weights: InFolder},
			},
			"1", "1 has 2 GiB to spare, of 2 of 2 with room",
		},
		"on the device": {
			[]GPU{
				{Name: "0", Memory: hbm.Budget{Total: 2 * gib}, Weights: OnDevice},
				{Name: "1", Memory: hbm.Budget{Total: 3 * gib}, Weights: InHostCache},
			},
			"0", "with room; it has the weights",
		},
		"nowhere": {
			[]GPU{
				{Name: "a", Memory: hbm.Budget{Total: gib / 2}}, {Name: "b"}, {Name: "c", Draining: true},
				{Name: "d", Avoid: true, Memory: hbm.Budget{Total: gib}}, {Name: "e", Silent: true},
			},
			"", "2 of 5 short of memory by 512 MiB or more; 1 draining; 1 refused it lately; 1 did not answer",
		},
		"no GPU": {nil, "", "no GPU"},
	} {
		got, why, ok := Place(hbm.Need{Fixed: gib}, tc.gpus)
		if got.String() != tc.want || ok != (tc.want != "") || !strings.Contains(why, tc.why) {
			t.Errorf("%s: %v, %q, %v", name, got, why, ok)
		}
	}
}

func TestClosestFit(t *testing.T) {
	need := hbm.Need{Fixed: 10}
	gpus := []GPU{
		{Name: "a", Memory: hbm.Budget{Total: 4}}, {Name: "b", Memory: hbm.Budget{Total: 7}, Evictable: 2},
		{Name: "c", Memory: hbm.Budget{Total: 9}, Draining: true},
		{Name: "d", Memory: hbm.Budget{Total: 20}, Avoid: true},
	}
	over, evictable := ClosestFit(need, gpus)
	if over == nil || over.Short != 3 || over.Budget.Total != 7 || evictable != 2 {
		t.Errorf("%+v", over)
	}
	if over, _ := ClosestFit(need, gpus[2:]); over != nil {
		t.Errorf("%+v", over)
	}
}

func TestRoomLater(t *testing.T) {
	need, room := hbm.Need{Fixed: 10}, hbm.Budget{Total: 20}
	for name, g := range map[string]GPU{
		"not avoided": {Memory: room}, "too small": {Memory: hbm.Budget{Total: 9}, Avoid: true},
		"quarantined": {Memory: room, Avoid: true, Quarantined: true},
		"draining":    {Memory: room, Avoid: true, Draining: true}, "silent": {Memory: room, Avoid: true, Silent: true},
	} {
		if RoomLater(need, []GPU{g}) {
			t.Errorf("%s: there is room later", name)
		}
	}
	if !RoomLater(need, []GPU{{Memory: hbm.Budget{Total: 9}}, {Memory: room, Avoid: true}}) {
		t.Error("there is no room on an avoided GPU")
	}
}
