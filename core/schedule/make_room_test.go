package schedule

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// gpuWith returns a GPU of 100 bytes with models of some sizes, each with one replica.
func gpuWith(name string, sizes ...int64) GPU {
	g := GPU{Name: name, Memory: hbm.Budget{Total: 100}}
	for i, size := range sizes {
		model := fmt.Sprint(name, i)
		h := Holder{Model: model, Replicas: []string{model + "-0"}, Need: hbm.Need{Fixed: size}}
		g.Holders = append(g.Holders, h)
		g.Memory = g.Memory.With(h.Need)
	}
	return g
}

func models(all []Holder) string {
	var names []string
	for _, h := range all {
		names = append(names, h.Model)
	}
	return strings.Join(names, " ")
}

// TestMakeRoom checks which models would leave which GPU.
func TestMakeRoom(t *testing.T) {
	silent := gpuWith("s", 10)
	silent.Silent = true
	for name, tc := range map[string]struct {
		need int64
		gpus []GPU
		want string
	}{
		"the smallest that suffices":    {30, []GPU{gpuWith("a", 10, 50, 40)}, "a: a2"},
		"two, without a needless one":   {60, []GPU{gpuWith("a", 5, 30, 35, 30)}, "a: a2 a3"},
		"the GPU with the fewest bytes": {50, []GPU{gpuWith("a", 80), gpuWith("b", 60), gpuWith("c", 70)}, "b: b0"},
		"larger than a GPU":             {101, []GPU{gpuWith("a", 50)}, ": "},
		"no other model":                {10, []GPU{gpuWith("a")}, ": "},
		"not on a silent GPU":           {95, []GPU{silent}, ": "},
	} {
		at, leave := MakeRoom(hbm.Need{Fixed: tc.need}, tc.gpus)
		if got := at.Name + ": " + models(leave); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestMakeRoomSuffices checks that the models that would leave make room, that none of them is
// needless, and that there are some whenever all of them would make room.
func TestMakeRoomSuffices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gpuWith("a", rapid.SliceOfN(rapid.Int64Range(1, 40), 0, 6).Draw(t, "sizes")...)
		need := hbm.Need{Fixed: rapid.Int64Range(1, 110).Draw(t, "need"), Min: rapid.Int64Range(0, 20).Draw(t, "min")}
		if g.short(need) == 0 {
			return
		}
		_, leave := MakeRoom(need, []GPU{g})
		possible := g.without(g.Holders...).short(need) == 0
		if possible != (len(leave) > 0) || len(leave) > 0 && g.without(leave...).short(need) > 0 {
			t.Fatalf("possible: %v; %v leave", possible, leave)
		}
		for i := range leave {
			rest := append(append([]Holder{}, leave[:i]...), leave[i+1:]...)
			if g.without(rest...).short(need) == 0 {
				t.Fatalf("%s leaves for nothing", leave[i].Model)
			}
		}
	})
}
