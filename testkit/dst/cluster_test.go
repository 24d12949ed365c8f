package dst_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/testkit/dst"
)

var (
	firstSeed = flag.Uint64("seed", 0, "run only this `seed`, with its log")
	seeds     = flag.Uint64("seeds", 15, "`number` of seeds of TestSeeds")
	from      = flag.Uint64("from", 1, "first `seed` of TestSeeds")
	faults    = flag.Int("faults", 14, "`number` of faults in a run")
	dense     = flag.Bool("burst", false, "bursts of load and faults, as in TestBursts")
	only      = flag.String("only", "", "with -seed: inject only these `faults`, separated by semicolons")
	quiet     = flag.Uint64("quiet", 3, "a third of the `number` of seeds of TestQuiet")
	first     = flag.Bool("first", false, "end at the first run that fails, and do not shrink its faults")
	trace     = flag.Bool("trace", false, "with -seed: print each message, timer and job")
)

func options(seed uint64, faults int) dst.Options {
	return dst.Options{Seed: seed, Nodes: 3, Calls: 40, Count: faults}
}

// alone applies the flags that concern the run of a single seed.
func alone(t *testing.T, o dst.Options) dst.Options {
	if *firstSeed == 0 {
		return o
	}
	if *only != "" {
		o.Faults = slices.DeleteFunc(run(t, o).Faults, func(f dst.Fault) bool {
			return !slices.Contains(strings.Split(*only, ";"), f.String())
		})
	}
	if o.Log = os.Stdout; *trace {
		o.Trace = func(at time.Duration, task string) { fmt.Println(at, task) }
	}
	return o
}

func run(t *testing.T, o dst.Options) (r dst.Result) {
	synctest.Test(t, func(*testing.T) { r = dst.Run(o) })
	return r
}

// report fails the test with the violated properties and the shortest list of faults that
// reproduces them.
func report(t *testing.T, o dst.Options, r dst.Result) {
	t.Helper()
	for _, f := range r.Failures {
		t.Errorf("seed %d: %s", o.Seed, f)
	}
	if *first {
		t.FailNow()
	}
	shortest := dst.Shrink(r.Faults, func(fewer []dst.Fault) bool {
		o.Faults = append([]dst.Fault{}, fewer...)
		return len(run(t, o).Failures) > 0
	})
	var lines []string
	for _, f := range shortest {
		lines = append(lines, "\t"+f.String())
	}
	again := fmt.Sprintf("make dst SEED=%d FAULTS=%d", o.Seed, o.Count)
	if name := t.Name(); name != "TestSeeds" && name != "TestRegressions" {
		again = fmt.Sprintf("go test -v ./testkit/dst -run '^%s$' -seed %d", name, o.Seed)
	}
	t.Errorf("seed %d fails with %d of %d faults:\n%s\nrun it again with: %s",
		o.Seed, len(shortest), len(r.Faults), strings.Join(lines, "\n"), again)
}

// TestSeeds runs a cluster of three nodes under load and faults, for many seeds.
func TestSeeds(t *testing.T) {
	start, count := *from, *seeds
	if *firstSeed != 0 {
		start, count = *firstSeed, 1
	}
	var virtual time.Duration
	var steps, served, injected uint64
	seen := make(dst.Seen)
	var slowest time.Duration
	traces, counts := make(map[string]bool), make(dst.Counts)
	began := time.Now()
	kind := options
	if *dense {
		kind = burst
	}
	for seed := start; seed < start+count; seed++ {
		o := kind(seed, *faults)
		o = alone(t, o)
		r := run(t, o)
		virtual, steps, served = virtual+r.Virtual, steps+r.Steps, served+uint64(r.Served)
		injected += uint64(len(r.Faults))
		seen.Add(r.Seen)
		slowest = max(slowest, r.Rested)
		traces[r.Trace] = true
		counts.Add(r.Counts)
		t.Logf("seed %d trace %s", seed, r.Trace)
		if len(r.Failures) > 0 {
			o.Log, o.Trace = nil, nil
			report(t, o, r)
		}
	}
	t.Logf(
		"%d seeds: %d traces, %d steps, %d faults, %d requests served, %.1f virtual hours per minute, at rest in %v",
		count,
		len(traces),
		steps,
		injected,
		served,
		virtual.Hours()/time.Since(began).Minutes(),
		slowest,
	)
	t.Logf("seen: %s", seen)
	t.Log(counts)
}

// TestSameSeedSameRun checks that a run of a cluster depends only on its seed.
func TestSameSeedSameRun(t *testing.T) {
	tasks := func(seed uint64) (all []string, r dst.Result) {
		o := options(seed, 14)
		o.Trace = func(at time.Duration, task string) { all = append(all, fmt.Sprint(at, " ", task)) }
		r = run(t, o)
		return all, r
	}
	for seed := uint64(1); seed <= 3; seed++ {
		first, one := tasks(seed)
		second, other := tasks(seed)
		if one.Trace == other.Trace && len(first) == len(second) {
			continue
		}
		same := 0
		for same < min(len(first), len(second)) && first[same] == second[same] {
			same++
		}
		from := max(0, same-10)
		t.Errorf("seed %d: the runs differ from task %d of %d and %d:\n\t%s\nand\n\t%s",
			seed, same, len(first), len(second),
			strings.Join(first[from:min(same+10, len(first))], "\n\t"),
			strings.Join(second[from:min(same+10, len(second))], "\n\t"))
	}
}

// TestRegressions repeats the seeds that have found bugs in the product or in its checks; see testdata/found.txt.
func TestRegressions(t *testing.T) {
	found, err := os.ReadFile("testdata/found.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(found)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		var seed uint64
		var faults int
		if _, err := fmt.Sscan(line, &seed, &faults); err != nil {
			t.Fatalf("testdata/found.txt: %q: %v", line, err)
		}
		o := options(seed, faults)
		switch {
		case strings.Contains(line, " burst: "):
			o = burst(seed, faults)
		case strings.Contains(line, " quiet: "):
			o = calm(seed)
		}
		if r := run(t, o); len(r.Failures) > 0 {
			report(t, o, r)
		}
	}
}
