package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// table prints how many runs passed, what they took, and how often each test failed, with idle and
// with busy cores.
func table(w io.Writer, all []result) {
	kinds := map[bool]string{false: "quiet", true: "all cores busy"}
	fmt.Fprintf(w, "\n%-16s %6s %6s %16s %16s\n", "", "runs", "passed", "longest", "most CPU")
	for _, busy := range []bool{false, true} {
		var runs, passed int
		var longest, most time.Duration
		for _, r := range all {
			if r.busy != busy {
				continue
			}
			if runs++; !r.failed {
				passed++
			}
			longest, most = max(longest, r.elapsed), max(most, r.cpu)
		}
		fmt.Fprintf(w, "%-16s %6d %6d %16s %16s\n", kinds[busy], runs, passed,
			longest.Round(time.Second), most.Round(time.Second))
	}
	times := make(map[string]*[2]int)
	for _, r := range all {
		for _, test := range r.failures {
			if times[test] == nil {
				times[test] = new([2]int)
			}
			if times[test][0]++; r.busy {
				times[test][1]++
			}
		}
	}
	if len(times) > 0 {
		fmt.Fprintf(w, "\n%-80s %6s %16s\n", "failed", "times", kinds[true])
	}
	for _, test := range slices.Sorted(maps.Keys(times)) {
		fmt.Fprintf(w, "%-80s %6d %16d\n", test, times[test][0], times[test][1])
	}
}
