package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/tools/mutate/mutant"
)

// part is what one process runs: one seed of a test of the simulation, or an entire test.
type part struct {
	Test   string
	Seed   string            // empty: the entire test
	Traces map[string]string // by run, without a change
	Runs   int
	Reach  map[int]bool // numbers of the changes that the runs reach
	Took   time.Duration
}

func (p part) String() string { return strings.TrimSpace(p.Test + " " + p.Seed) }

// notRuns are the tests of the simulation that repeat runs of others, or run no cluster.
const notRuns = "^(TestSame.*|TestRegressions|TestSocket.*|TestTexts.*|TestStopString.*|TestSeedsAnd.*|TestShrink|" +
	"TestCompare|TestCommands|TestSelectFaults|TestAllTablesRun|TestBursts)$"

// arguments returns the flags of the test for a part.
func (p part) arguments() []string {
	args := []string{"-test.run=^" + p.Test + "$", "-test.v", "-test.failfast", "-first"}
	switch {
	case p.Seed == "":
	case p.Test == "TestSeeds":
		args = append(args, "-seeds=1", "-from="+p.Seed)
	default:
		args = append(args, "-pick="+p.Seed)
	}
	return args
}

var (
	runEnded  = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*) trace ([0-9a-f]{16})$`)
	seedOfRun = regexp.MustCompile(`^\s+\w+\.go:\d+: (?:Test\w+ )?seed (\d+) trace`)
)

// survey runs all tests of the simulation without a change, several at a time, and returns their parts in
// the order in which changes are tried: some seeds of each test come first.
func survey(binary string, seeds, workers int) (parts []part, err error) {
	listed, err := execute(binary, simulation, "0", time.Minute, "-test.list=.")
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, listed.out)
	}
	skip := regexp.MustCompile(notRuns)
	tests := slices.DeleteFunc(strings.Fields(listed.out), func(test string) bool {
		return !strings.HasPrefix(test, "Test") || skip.MatchString(test)
	})
	of, problems := make([][]part, len(tests)), make([]error, len(tests))
	var wait sync.WaitGroup
	next := make(chan int)
	for range workers {
		wait.Go(func() {
			for i := range next {
				of[i], problems[i] = surveyTest(binary, tests[i], seeds)
			}
		})
	}
	for i := range tests {
		next <- i
	}
	close(next)
	wait.Wait()
	return inOrder(slices.Concat(of...)), errors.Join(problems...)
}

// surveyTest runs one test of the simulation without a change.
func surveyTest(binary, test string, seeds int) ([]part, error) {
	began := time.Now()
	r, err := execute(binary, simulation, "reach", 10*time.Minute, "-test.run=^"+test+"$", "-test.v", "-first",
		"-seeds="+strconv.Itoa(seeds))
	if err != nil {
		why, _ := reason(r.out, r.late) // of any kind
		return nil, fmt.Errorf("without a change: %s: %w: %s", test, err, why)
	}
	return split(test, r.out, time.Since(began)), nil
}

// split returns the parts of a test from what it has written.
func split(test, out string, took time.Duration) (parts []part) {
	next := part{Test: test, Traces: make(map[string]string), Reach: make(map[int]bool)}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if n, ok := strings.CutPrefix(line, mutant.Reached); ok {
			number, _ := strconv.Atoi(n) // digits
			next.Reach[number] = true
		}
		run := runEnded.FindStringSubmatch(line)
		if run == nil {
			continue
		}
		next.Traces[run[1]], next.Runs = run[2], next.Runs+1
		if seed := seedOfRun.FindStringSubmatch(line); seed != nil {
			one := next
			one.Seed = seed[1]
			one.Traces, one.Reach = maps.Clone(next.Traces), maps.Clone(next.Reach)
			clear(next.Traces)
			clear(next.Reach)
			next.Runs = 0
			parts = append(parts, one)
		}
	}
	if len(parts) == 0 {
		next.Runs = max(next.Runs, 1)
		parts = append(parts, next)
	}
	for i := range parts {
		parts[i].Took = took / time.Duration(len(parts))
	}
	return parts
}

// inOrder sorts parts: first 8 seeds of TestSeeds and the runs without faults, then the first seed of each
// scenario, then the second ones, and so on.
func inOrder(parts []part) []part {
	index := make(map[string]int) // by test
	rank := make(map[string]int)  // by part
	for _, p := range parts {
		n := index[p.Test]
		index[p.Test]++
		switch {
		case p.Test == "TestSeeds":
			n /= 8
		case p.Test == "TestQuiet":
		default:
			n++
		}
		rank[p.String()] = n
	}
	slices.SortStableFunc(parts, func(a, b part) int { return rank[a.String()] - rank[b.String()] })
	return parts
}
