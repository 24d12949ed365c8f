package schedule

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// deviceWith returns a device of 100 bytes with models of some sizes, each with one replica.
func deviceWith(name string, sizes ...int64) tenants {
	d := tenants{device: name, memory: hbm.Budget{Total: 100}}
	for i, size := range sizes {
		model := fmt.Sprint(name, i)
		h := Holder{Model: model, Replicas: []string{model + "-0"}, Need: hbm.Need{Fixed: size}}
		d.holders = append(d.holders, h)
		d.memory = d.memory.With(h.Need)
	}
	return d
}

func models(all []Holder) string {
	var names []string
	for _, h := range all {
		names = append(names, h.Model)
	}
	return strings.Join(names, " ")
}

// TestMakeRoom checks which models would leave which device.
func TestMakeRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		need    int64
		devices []tenants
		want    string
	}{
		"the smallest that suffices":  {30, []tenants{deviceWith("a", 10, 50, 40)}, "a: a2"},
		"two, without a needless one": {60, []tenants{deviceWith("a", 5, 30, 35, 30)}, "a: a2 a3"},
		"the device with the fewest bytes": {
			50, []tenants{deviceWith("a", 80), deviceWith("b", 60), deviceWith("c", 70)}, "b: b0",
		},
		"larger than a device": {101, []tenants{deviceWith("a", 50)}, ": "},
		"no other model":       {10, []tenants{deviceWith("a")}, ": "},
	} {
		at, leave := makeRoom(hbm.Need{Fixed: tc.need}, tc.devices)
		if got := at + ": " + models(leave); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestMakeRoomSuffices checks that the models that would leave make room, that none of them is
// needless, and that there are some whenever all of them would make room.
func TestMakeRoomSuffices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := deviceWith("a", rapid.SliceOfN(rapid.Int64Range(1, 40), 0, 6).Draw(t, "sizes")...)
		need := hbm.Need{Fixed: rapid.Int64Range(1, 110).Draw(t, "need"), Min: rapid.Int64Range(0, 20).Draw(t, "min")}
		if d.short(need) == 0 {
			return
		}
		_, leave := makeRoom(need, []tenants{d})
		possible := d.without(d.holders...).short(need) == 0
		if possible != (len(leave) > 0) || len(leave) > 0 && d.without(leave...).short(need) > 0 {
			t.Fatalf("possible: %v; %v leave", possible, leave)
		}
		for i := range leave {
			rest := append(append([]Holder{}, leave[:i]...), leave[i+1:]...)
			if d.without(rest...).short(need) == 0 {
				t.Fatalf("%s leaves for nothing", leave[i].Model)
			}
		}
	})
}
