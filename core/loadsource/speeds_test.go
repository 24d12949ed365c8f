package loadsource

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestOrder checks the choice for measured and assumed speeds.
func TestOrder(t *testing.T) {
	type sample struct {
		kind  Kind
		bytes int64
	}
	for _, c := range []struct {
		name       string
		samples    []sample // bytes in a second
		candidates []Kind
		want       []int
		why        string
	}{
		{"nothing", nil, nil, nil, ""},
		{"one", nil, []Kind{Folder}, []int{0}, "it is assumed to deliver 953.7 MiB/s"},
		{"assumed", nil, []Kind{Node, Folder, DiskImage}, []int{2, 1, 0},
			"it is assumed to deliver 1.9 GiB/s, and disk is assumed to deliver 953.7 MiB/s"},
		{"devices", nil, []Kind{NodeDevice, Node, Folder, DiskImage, Device}, []int{4, 3, 2, 1, 0},
			"it is assumed to deliver 7.5 GiB/s, and disk image is assumed to deliver 1.9 GiB/s"},
		{"a slow device", []sample{{Device, 200 << 20}}, []Kind{Device, DiskImage}, []int{1, 0},
			"it is assumed to deliver 1.9 GiB/s, and device delivered 200 MiB/s"},
		{"a fast device elsewhere", []sample{{NodeDevice, 3 << 30}, {Node, 1 << 30}}, []Kind{Node, NodeDevice},
			[]int{1, 0}, "it delivered 3 GiB/s, and node delivered 1 GiB/s"},
		{"a slow folder", []sample{{Folder, 100 << 20}}, []Kind{Folder, Node}, []int{1, 0},
			"it is assumed to deliver 476.8 MiB/s, and disk delivered 100 MiB/s"},
		{"a fast node", []sample{{Node, 5 << 30}, {Folder, 3 << 30}}, []Kind{Folder, Node}, []int{1, 0},
			"it delivered 5 GiB/s, and disk delivered 3 GiB/s"},
		{"equally fast", []sample{{Node, 1 << 30}}, []Kind{Node, Node}, []int{0, 1}, "it delivered 1 GiB/s"},
		{"a running estimate", []sample{{Node, 1000 << 20}, {Node, 2000 << 20}}, []Kind{Node}, []int{0},
			"it delivered 1.3 GiB/s"},
		{"no bytes", []sample{{Folder, 0}}, []Kind{Folder}, []int{0}, "it is assumed to deliver 953.7 MiB/s"},
	} {
		var s Speeds
		for _, one := range c.samples {
			s.Observe(one.kind, one.bytes, time.Second)
		}
		if order, why := s.Order(c.candidates); !slices.Equal(order, c.want) || why != c.why {
			t.Errorf("%s: %v, %q", c.name, order, why)
		}
	}
}

// TestInvariants checks the invariants of doc.go with random samples and candidates.
func TestInvariants(t *testing.T) {
	kinds := []Kind{Device, DiskImage, Folder, Node, NodeDevice}
	rapid.Check(t, func(t *rapid.T) {
		var s Speeds
		least, most := make(map[Kind]float64), make(map[Kind]float64)
		for range rapid.IntRange(0, 20).Draw(t, "samples") {
			k := rapid.SampledFrom(kinds).Draw(t, "kind")
			bytes := rapid.Int64Range(-1, 1<<40).Draw(t, "bytes")
			took := time.Duration(rapid.Int64Range(-1, 1e12).Draw(t, "took"))
			before, known := s.Of(k)
			s.Observe(k, bytes, took)
			after, measured := s.Of(k)
			if bytes <= 0 || took <= 0 {
				if before != after || known != measured {
					t.Fatalf("robust: %d bytes in %v change %v to %v", bytes, took, before, after)
				}
				continue
			}
			v := float64(bytes) / took.Seconds()
			if !known {
				least[k], most[k] = v, v
			}
			least[k], most[k] = min(least[k], v), max(most[k], v)
			if slack := most[k] * 1e-9; after < least[k]-slack || after > most[k]+slack {
				t.Fatalf("bounded: %v is not between %v and %v", after, least[k], most[k])
			}
		}
		candidates := rapid.SliceOf(rapid.SampledFrom(kinds)).Draw(t, "candidates")
		order, _ := s.Order(candidates)
		seen := make(map[int]bool)
		for n, i := range order {
			seen[i] = true
			if n > 0 && s.Faster(candidates[i], candidates[order[n-1]]) {
				t.Fatalf("fastest first: %v of %v", order, candidates)
			}
		}
		if len(seen) != len(candidates) || len(order) != len(candidates) {
			t.Fatalf("all: %v of %v", order, candidates)
		}
	})
}

// TestFloor checks that a floor is that of the slower one of source and link, and that it is not known
// before both were measured.
func TestFloor(t *testing.T) {
	var s Speeds
	if _, known := s.Floor(Folder, 1e9, 1e9); known {
		t.Error("the floor of an assumed speed")
	}
	s.Observe(Folder, 2e9, time.Second)
	for _, c := range []struct {
		kind  Kind
		link  float64
		want  time.Duration
		known bool
	}{
		{Folder, 8e9, 2 * time.Second, true},
		{Folder, 1e9, 4 * time.Second, true},
		{Folder, 0, 0, false},
		{Host, 8e9, 500 * time.Millisecond, true},
		{Host, 0, 0, false},
		{Node, 8e9, 0, false},
	} {
		if least, known := s.Floor(c.kind, c.link, 4e9); least != c.want || known != c.known {
			t.Errorf("from %s over a link of %g: %s, %t", c.kind, c.link, least, known)
		}
	}
}
