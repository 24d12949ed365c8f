package loadsource

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Sources of the tests, on the device gpu-0.
var (
	inHost    = Candidate{Path: Path{Host, "", "gpu-0"}, Name: "host cache"}
	onDevice1 = Candidate{Path: Path{Device, "gpu-1", "gpu-0"}, Name: "device gpu-1", Direct: true}
	onDevice2 = Candidate{Path: Path{Device, "gpu-2", "gpu-0"}, Name: "device gpu-2"}
	onDisk    = Candidate{Path: Path{DiskImage, "8:1", "gpu-0"}, Name: "disk image"}
	inFolder  = Candidate{Path: Path{Folder, "8:2", "gpu-0"}, Name: "disk"}
	onNodeB   = Candidate{Path: Path{Node, "node b", "gpu-0"}, Name: "node b"}
	onNodeC   = Candidate{Path: Path{Node, "node c", "gpu-0"}, Name: "node c"}
	onDeviceB = Candidate{Path: Path{NodeDevice, "node b, gpu-0", "gpu-0"}, Name: "node b, device gpu-0"}
	everyone  = []Candidate{inHost, onDevice1, onDevice2, onDisk, inFolder, onNodeB, onNodeC, onDeviceB}
)

const gib = 1 << 30

// load is a load in a second.
type load struct {
	of    Candidate
	bytes int64
}

// TestRank checks the choice for measured and assumed speeds.
func TestRank(t *testing.T) {
	suspected := onNodeB
	suspected.Suspect = "other tokens"
	for _, c := range []struct {
		name       string
		loads      []load
		bytes      int64
		candidates []Candidate
		want       []int
		why        string
	}{
		{"nothing", nil, gib, nil, nil, ""},
		{"one", nil, gib, []Candidate{inFolder}, []int{0},
			"the expected time is 1.07 s (disk: 953.7 MiB/s assumed)"},
		{"the default order", nil, gib,
			[]Candidate{onDeviceB, onNodeB, inFolder, onDisk, onDevice1, inHost}, []int{5, 4, 3, 2, 1, 0},
			"the expected times are 0.0671 s (host cache: 14.9 GiB/s assumed), " +
				"0.134 s (device gpu-1: 7.5 GiB/s assumed), " +
				"0.537 s (disk image: 1.9 GiB/s assumed), 1.07 s (disk: 953.7 MiB/s assumed)"},
		{"small weights are in the default order", []load{{inHost, gib}, {onDisk, 2 * gib}}, 10 << 20,
			[]Candidate{onDisk, inHost}, []int{1, 0},
			"the expected times are 0.00977 s (host cache: 1 GiB/s measured), " +
				"" +
				"0.00488 s (disk image: 2 GiB/s measured)"},
		{"the host cache is not always first", []load{{inHost, gib}, {onDevice1, 4 * gib}}, gib,
			[]Candidate{inHost, onDevice1}, []int{1, 0},
			"the expected times are 0.25 s (device gpu-1: 4 GiB/s measured), " +
				"" +
				"1 s (host cache: 1 GiB/s measured)"},
		{"a slower device", []load{{inHost, 2 * gib}, {onDevice1, gib}}, gib, []Candidate{onDevice1, inHost},
			[]int{1, 0}, "the expected times are 0.5 s (host cache: 2 GiB/s measured), " +
				"1 s (device gpu-1: 1 GiB/s measured)"},
		{"a device that is reached directly is tried", []load{{inHost, 16 * gib}}, 8 * gib,
			[]Candidate{inHost, onDevice1},
			[]int{1, 0}, "the expected times are 0.25 s (device gpu-1: 32 GiB/s assumed), " +
				"0.5 s (host cache: 16 GiB/s measured)"},
		{"no path through host memory is assumed to be faster than it", []load{{inHost, gib / 8}}, gib,
			[]Candidate{inFolder, onDevice2, onDisk, inHost}, []int{3, 1, 2, 0},
			"the expected times are 8 s (host cache: 128 MiB/s measured), 8 s (device gpu-2: 128 MiB/s assumed), " +
				"8 s (disk image: 128 MiB/s assumed), 8 s (disk: 128 MiB/s assumed)"},
		{"each pair of devices has its speed", []load{{onDevice1, gib}, {onDevice2, 2 * gib}}, gib,
			[]Candidate{onDevice1, onDevice2}, []int{1, 0},
			"the expected times are 0.5 s (device gpu-2: 2 GiB/s measured), " +
				"" +
				"1 s (device gpu-1: 1 GiB/s measured)"},
		{"each node has its speed", []load{{onNodeB, gib / 8}, {onNodeC, gib}}, gib, []Candidate{onNodeB, onNodeC},
			[]int{1, 0}, "the expected times are 1 s (node c: 1 GiB/s measured), 8 s (node b: 128 MiB/s measured)"},
		{"a slow folder", []load{{inFolder, gib / 8}}, gib, []Candidate{inFolder, onNodeB}, []int{1, 0},
			"the expected times are 2.15 s (node b: 476.8 MiB/s assumed), 8 s (disk: 128 MiB/s measured)"},
		{"one slow load of three", []load{{onNodeB, 2 * gib}, {onNodeB, gib / 64}, {onNodeB, 2 * gib}, {onNodeC, gib}},
			gib, []Candidate{onNodeC, onNodeB}, []int{1, 0},
			"the expected times are 0.5 s (node b: 2 GiB/s measured), 1 s (node c: 1 GiB/s measured)"},
		{"one fast load of three", []load{{onNodeB, gib / 2}, {onNodeB, 64 * gib}, {onNodeB, gib / 2}, {onNodeC, gib}},
			gib, []Candidate{onNodeB, onNodeC}, []int{1, 0},
			"the expected times are 1 s (node c: 1 GiB/s measured), 2 s (node b: 512 MiB/s measured)"},
		{"a suspect is left out", []load{{onNodeB, 2 * gib}}, gib, []Candidate{suspected, inFolder}, []int{1},
			"the expected time is 1.07 s (disk: 953.7 MiB/s assumed); not node b: other tokens"},
		{"only a suspect", nil, gib, []Candidate{suspected}, nil, "not node b: other tokens"},
	} {
		var s Speeds
		for _, one := range c.loads {
			s.Observe(one.of.Path, one.bytes, time.Second)
		}
		if order, why := s.Rank(c.bytes, c.candidates); !slices.Equal(order, c.want) || why != c.why {
			t.Errorf("%s: %v, %q", c.name, order, why)
		}
	}
}

// TestBeats checks when other nodes are asked: if any of them is expected to be faster.
func TestBeats(t *testing.T) {
	var s Speeds
	s.Observe(inFolder.Path, gib, time.Second)
	if s.Beats(Node, inFolder, gib) {
		t.Error("an assumed node beats a faster folder")
	}
	s.Observe(onNodeB.Path, gib/8, time.Second)
	s.Observe(onNodeC.Path, 4*gib, time.Second)
	if !s.Beats(Node, inFolder, gib) || s.Beats(Node, inFolder, 1<<20) || s.Beats(NodeDevice, inFolder, gib) {
		t.Error("the fastest node decides, if it matters")
	}
}

// TestInvariants checks the invariants of doc.go with random loads and candidates.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s, same Speeds
		last := make(map[Path][]float64)
		for range rapid.IntRange(0, 20).Draw(t, "loads") {
			p := rapid.SampledFrom(everyone).Draw(t, "path").Path
			bytes := rapid.Int64Range(-1, 1<<40).Draw(t, "bytes")
			took := time.Duration(rapid.Int64Range(-1, 1e12).Draw(t, "took"))
			before := fmt.Sprint(s)
			s.Observe(p, bytes, took)
			same.Observe(p, bytes, took)
			if bytes <= 0 || took <= 0 {
				if fmt.Sprint(s) != before {
					t.Fatalf("robust: %d bytes in %v change %s", bytes, took, before)
				}
				continue
			}
			all := append(last[p.key()], float64(bytes)/took.Seconds())
			all = all[max(0, len(all)-samples):]
			last[p.key()] = all
			if v, measured := s.Of(p, false); !measured || v < slices.Min(all) || v > slices.Max(all) {
				t.Fatalf("bounded: %v is not between those of %v", v, all)
			}
			if least, known := s.Floor(p, bytes); !known || least <= 0 || least > took+1 {
				t.Fatalf("floor: %v, %v, after a load of %v", least, known, took)
			}
		}
		candidates := rapid.SliceOf(rapid.SampledFrom(everyone)).Draw(t, "candidates")
		for i := range candidates {
			candidates[i].Suspect = rapid.SampledFrom([]string{"", "", "other tokens"}).Draw(t, "suspect")
		}
		bytes := rapid.Int64Range(1, 1<<40).Draw(t, "bytes")
		order, why := s.Rank(bytes, candidates)
		if again, whyAgain := same.Rank(bytes, candidates); !slices.Equal(order, again) || why != whyAgain {
			t.Fatalf("deterministic: %v, %q, then %v, %q", order, why, again, whyAgain)
		}
		seen := make(map[int]bool)
		for n, i := range order {
			seen[i] = true
			for _, before := range order[:n] {
				_, one := s.Of(candidates[before].Path, candidates[before].Direct)
				_, other := s.Of(candidates[i].Path, candidates[i].Direct)
				if a, b := s.Expected(candidates[before], bytes), s.Expected(candidates[i], bytes); one && other &&
					a > b+Resolution {
					t.Fatalf("fastest first: %v before %v, %q", a, b, why)
				}
			}
		}
		for i, c := range candidates {
			if seen[i] != (c.Suspect == "") {
				t.Fatalf("all: %v of %v", order, candidates)
			}
		}
		if len(seen) != len(order) {
			t.Fatalf("all: %v", order)
		}
	})
}

// TestPathsAreBounded checks that the path that was measured first is forgotten.
func TestPathsAreBounded(t *testing.T) {
	var s Speeds
	for i := range maxPaths + 1 {
		s.Observe(Path{Kind: Node, From: fmt.Sprint(i)}, 1, time.Second)
	}
	_, first := s.Of(Path{Kind: Node, From: "0"}, false)
	_, second := s.Of(Path{Kind: Node, From: "1"}, false)
	if first || !second || len(s.last) != maxPaths || len(s.order) != maxPaths {
		t.Errorf("first: %v, second: %v, %d paths", first, second, len(s.last))
	}
}

// TestFloor checks that a floor is that of the slower one of source and link, by the best loads, and that it is
// known as soon as one of the two was measured.
func TestFloor(t *testing.T) {
	for _, c := range []struct {
		name  string
		link  float64
		loads []load
		of    Candidate
		want  time.Duration
		known bool
	}{
		{"nothing was measured", 0, nil, inFolder, 0, false},
		{"the link alone", 8e9, nil, inFolder, 500 * time.Millisecond, true},
		{"the source alone", 0, []load{{inFolder, 2e9}}, inFolder, 2 * time.Second, true},
		{"a slower source", 8e9, []load{{inFolder, 2e9}}, inFolder, 2 * time.Second, true},
		{"the best load", 8e9, []load{{inFolder, 4e9}, {inFolder, 2e9}}, inFolder, time.Second, true},
		{"a load shows that the link is faster", 1e9, []load{{inFolder, 2e9}}, inFolder, 2 * time.Second, true},
		{"a slower link", 8e9, []load{{onNodeB, 16e9}, {onNodeC, 20e9}}, onNodeB, 250 * time.Millisecond, true},
		{"the host cache", 8e9, nil, inHost, 500 * time.Millisecond, true},
		{"a slow load from the host cache", 8e9, []load{{inHost, 4e9}}, inHost, 500 * time.Millisecond, true},
		{"the host cache without a link", 0, []load{{inHost, 4e9}}, inHost, time.Second, true},
		{"a peer copy does not use the link", 1e9, []load{{onDevice1, 8e9}}, onDevice1, 500 * time.Millisecond, true},
		{"a peer that was not measured", 8e9, nil, onDevice1, 0, false},
	} {
		var s Speeds
		if c.link > 0 {
			s.ObserveLink("gpu-0", c.link)
		}
		for _, one := range c.loads {
			s.Observe(one.of.Path, one.bytes, time.Second)
		}
		if least, known := s.Floor(c.of.Path, 4e9); least != c.want || known != c.known {
			t.Errorf("%s: %v, %t", c.name, least, known)
		}
	}
}
