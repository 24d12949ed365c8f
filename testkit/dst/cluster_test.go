package dst_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/testkit/dst"
)

var (
	firstSeed = flag.Uint64("seed", 0, "run only this `seed`, with its log")
	seeds     = flag.Uint64("seeds", 8, "`number` of seeds of TestSeeds")
	from      = flag.Uint64("from", 1,
		"first `seed` of TestSeeds and TestQuiet, and with -wide of TestBursts and the scenarios")
	nodes  = flag.Int("nodes", 3, "`number` of nodes of TestSeeds, and of the scenarios that have no other one")
	faults = flag.Int("faults", 14, "`number` of faults in a run of TestSeeds")
	dense  = flag.Bool("burst", false, "let TestSeeds run bursts of load and faults, as TestBursts does")
	only   = flag.String("only", "",
		"with -seed: inject only these `faults` of the run, as a failure prints them, separated by semicolons")
	quiet = flag.Uint64("quiet", 3, "`number` of groups of three seeds that TestQuiet runs: one with little load, "+
		"one with much load, and one with much load and commands of operators")
	first = flag.Bool("first", false, "end at the first run that fails, and do not shrink its faults")
	trace = flag.Bool("trace", false, "with -seed: print each message, timer and job")
)

func options(seed uint64, faults int) dst.Options {
	return dst.Options{Seed: seed, Nodes: *nodes, Calls: 40, Count: faults}
}

// alone applies the flags that concern the run of a single seed.
func alone(t *testing.T, o dst.Options) dst.Options {
	t.Helper()
	if *firstSeed == 0 {
		if *only != "" {
			t.Fatal("-only needs -seed")
		}
		return o
	}
	if *only != "" {
		var err error
		if o.Faults, err = selectFaults(run(t, o).Faults, *only); err != nil {
			t.Fatalf("-only: %v", err)
		}
	}
	if o.Log = os.Stdout; *trace {
		o.Trace = func(at time.Duration, task string) { fmt.Println(at, task) }
	}
	return o
}

// selectFaults returns the faults that a list names, by their String, separated by semicolons. It returns an
// error if one of the names is that of no fault.
func selectFaults(all []dst.Fault, list string) (selected []dst.Fault, err error) {
	names := make(map[string]bool)
	for name := range strings.SplitSeq(list, ";") {
		names[strings.TrimSpace(name)] = true
	}
	var known []string
	for _, f := range all {
		known = append(known, f.String())
		if names[f.String()] {
			selected = append(selected, f)
		}
	}
	for name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("the run has no fault %q; it has:\n\t%s", name, strings.Join(known, "\n\t"))
		}
	}
	return selected, nil
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
	t.Errorf("seed %d fails with %d of %d faults:\n%s\nrun it again with: %s",
		o.Seed, len(shortest), len(r.Faults), strings.Join(lines, "\n"), commandOf(t.Name(), o))
}

// commandOf returns the command that repeats a run of a test. TestRegressions has runs of TestSeeds, of
// TestQuiet, and bursts, the only runs of TestSeeds that set Options.Load.
func commandOf(test string, o dst.Options) string {
	seeds := test == "TestSeeds" || test == "TestRegressions"
	flags := fmt.Sprintf("SEED=%d FAULTS=%d", o.Seed, o.Count)
	if o.Nodes != 3 {
		flags += fmt.Sprintf(" NODES=%d", o.Nodes)
	}
	switch {
	case seeds && o.Calm:
		test = "TestQuiet"
	case seeds && o.Load > 0:
		return "make dst " + flags + " BURST=1"
	case seeds:
		return "make dst " + flags
	}
	return fmt.Sprintf("go test -v ./testkit/dst -run '^%s$' -seed %d", test, o.Seed)
}

// TestCommands checks the commands that repeat a run.
func TestCommands(t *testing.T) {
	defer func(given int) { *nodes = given }(*nodes)
	*nodes, _ = strconv.Atoi(flag.Lookup("nodes").DefValue)
	five := options(7, 14)
	five.Nodes = 5
	for _, c := range []struct {
		test string
		o    dst.Options
		want string
	}{
		{"TestSeeds", five, "make dst SEED=7 FAULTS=14 NODES=5"},
		{"TestSeeds", options(7, 14), "make dst SEED=7 FAULTS=14"},
		{"TestSeeds", burst(7, 20), "make dst SEED=7 FAULTS=20 BURST=1"},
		{"TestRegressions", options(7, 14), "make dst SEED=7 FAULTS=14"},
		{"TestRegressions", burst(7, 21), "make dst SEED=7 FAULTS=21 BURST=1"},
		{"TestRegressions", calm(7), "go test -v ./testkit/dst -run '^TestQuiet$' -seed 7"},
		{"TestBursts", burst(7, 21), "go test -v ./testkit/dst -run '^TestBursts$' -seed 7"},
	} {
		if got := commandOf(c.test, c.o); got != c.want {
			t.Errorf("%s: %s, want %s", c.test, got, c.want)
		}
	}
}

// TestSelectFaults checks that -only selects faults by their names, and refuses unknown ones.
func TestSelectFaults(t *testing.T) {
	all := []dst.Fault{
		{At: time.Second, Kind: dst.Evict, Node: "n0"},
		{At: 2 * time.Second, Kind: dst.Cut, Node: "n0", Peer: "n1", For: time.Second},
	}
	selected, err := selectFaults(all, "2s cut n0 -> n1 for 1s")
	if err != nil || len(selected) != 1 || selected[0] != all[1] {
		t.Errorf("selected %v: %v", selected, err)
	}
	if selected, err = selectFaults(all, "1s evict n0; 2s cut n0 -> n1 for 1s"); err != nil || len(selected) != 2 {
		t.Errorf("selected %v: %v", selected, err)
	}
	if selected, err = selectFaults(all, "1s evict n0;2s cut n0 -> n1"); err == nil {
		t.Errorf("an unknown fault selects %v", selected)
	}
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

// TestLargerClusters runs clusters of four and of five nodes under the load and the faults of TestSeeds.
func TestLargerClusters(t *testing.T) {
	for nodes := 4; nodes <= 5; nodes++ {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			scenario(t, dst.Options{Nodes: nodes, Count: *faults}, 3)
		})
	}
}

// TestSameSeedSameRun checks that a run of a cluster depends only on its seed.
func TestSameSeedSameRun(t *testing.T) {
	tasks := func(seed uint64) (all []string, r dst.Result) {
		o := options(seed, 14)
		o.Trace = func(at time.Duration, task string) { all = append(all, fmt.Sprint(at, " ", task)) }
		r = run(t, o)
		return all, r
	}
	for seed := uint64(1); seed <= 2; seed++ {
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
