package router

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"troupe/messages"
)

// TestDeploymentCache checks that the cache has what was put and not removed since, and that what readers have got
// does not change.
func TestDeploymentCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cache DeploymentCache
		want := make(map[string]*messages.ApplyDeployment)
		check := func() []*messages.ApplyDeployment {
			all := cache.All()
			var names []string
			for _, d := range all {
				names = append(names, d.GetSpec().GetName())
				if want[d.GetSpec().GetName()] != d {
					t.Fatalf("it has %v", d)
				}
			}
			if !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
				t.Fatalf("it has %v, want %v", names, want)
			}
			return all
		}
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			before := check()
			kept := slices.Clone(before)
			for range rapid.IntRange(0, 2*maxChanged).Draw(t, "changes") {
				name := fmt.Sprintf("m%d", rapid.IntRange(0, 2*maxChanged).Draw(t, "name"))
				if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
					cache.remove(name)
					delete(want, name)
				} else {
					want[name] = &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: name}}
					cache.put(want[name])
				}
				if cache.Find(name) != want[name] {
					t.Fatalf("%s is %v, want %v", name, cache.Find(name), want[name])
				}
			}
			if !slices.Equal(before, kept) {
				t.Fatal("what a reader has got changed")
			}
		}
		check()
	})
}
