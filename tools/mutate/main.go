// Command mutate checks the simulation of testkit/dst by breaking the protocols that it should
// check (mutation testing). A seed selects the changes, evenly over folders and kinds. All changes
// are built into one test, in which one at a time is put into effect. A change that no run of the
// simulation finds has survived: a property is missing, or the change breaks nothing.
//
//	go run ./tools/mutate -seed 1 -n 60
//
// The files themselves are not changed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// folders have the protocols of the cluster.
const folders = "core/session,core/deployment,core/leadership,core/replica,core/migrate,core/restore,core/offload," +
	"core/export,core/tier,core/remote,core/device,core/quarantine,core/router,core/lora,core/hbm,core/kv,core/batch," +
	"actors/adapter,actors/exporter,actors/gpu,actors/kvblock,actors/planner,actors/model/deployment," +
	"actors/model/replica,actors/model/replica/copier,actors/model/replica/migration,actors/model/replica/tiering," +
	"actors/model/replicaset,actors/model/router,actors/model/session,actors/model/stepper"

// notRuns are the tests of testkit/dst that repeat runs of others, or run no cluster.
const notRuns = "^(TestSame.*|TestRegressions|TestSocket.*|TestTexts.*|TestStopString.*|TestSeedsAnd.*|TestShrink|" +
	"TestCompare|TestAllTablesRun|TestBursts)$"

// options are the flags.
type options struct {
	seed    uint64
	count   int
	seeds   int
	timeout time.Duration
	in      []string
	only    []int
	list    bool
	own     bool
	runs    string
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "`seed` that selects the changes")
	flag.IntVar(&o.count, "n", 60, "`number` of changes")
	flag.IntVar(&o.seeds, "seeds", 25, "`number` of runs with faults")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "`time` after which a test counts as failed")
	flag.BoolVar(&o.list, "list", false, "list the changes and run nothing")
	flag.BoolVar(&o.own, "own", true, "run the tests of a survivor's own package")
	flag.StringVar(&o.runs, "run", "", "`regexp` of the tests of testkit/dst that are run; empty: all with a cluster")
	in := flag.String("in", folders, "comma-separated `folders` whose files are changed, without their tests")
	only := flag.String("only", "", "comma-separated `numbers` of changes that are tried")
	flag.Parse()
	o.in = strings.Split(*in, ",")
	if *only != "" {
		for s := range strings.SplitSeq(*only, ",") {
			n, err := strconv.Atoi(s)
			if err != nil {
				fmt.Fprintln(os.Stderr, "mutate: -only:", err)
				os.Exit(2)
			}
			o.only = append(o.only, n)
		}
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	var byFolder [][]change
	for _, folder := range o.in {
		changes, err := changesIn(folder)
		if err != nil {
			return err
		}
		byFolder = append(byFolder, changes)
	}
	all := queue(o.seed, byFolder)
	if o.list {
		for i, c := range all[:min(o.count, len(all))] {
			fmt.Printf("%3d %-7s %s\n", i+1, c.kind, c)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &test{binary: filepath.Join(dir, "dst.test"), dir: "testkit/dst", timeout: o.timeout,
		args: []string{"-test.run=" + o.runs, "-test.skip=" + notRuns, "-test.v", "-test.failfast", "-first",
			"-brief=3", "-seeds=" + strconv.Itoa(o.seeds)}}
	in, err := build(dir, "./testkit/dst", t.binary, all, o.count)
	if err != nil {
		return err
	}
	if err := t.baseline(); err != nil {
		return err
	}
	var outcomes []outcome
	for i, c := range in {
		if len(o.only) > 0 && !slices.Contains(o.only, i+1) {
			continue
		}
		result, err := t.try(i+1, c)
		if err != nil {
			return err
		}
		how := "found in run " + strconv.Itoa(result.runs)
		if !result.found {
			if o.own {
				result.own = ownTest(dir, i+1, in)
			}
			how = "SURVIVED, " + result.course()
		}
		outcomes = append(outcomes, result)
		fmt.Printf("%3d %-24s %5.1fs %-7s %s  %s\n", i+1, how, result.took.Seconds(), c.kind, c, result.by+result.own)
	}
	fmt.Println()
	summary(os.Stdout, o.seed, outcomes)
	return nil
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// ownTest runs the tests of a changed package with the change of a number, and returns the first
// that fails.
func ownTest(dir string, n int, in []change) string {
	folder := filepath.Dir(in[n-1].path)
	binary := filepath.Join(dir, "own.test")
	if _, err := compile(dir, "./"+folder, binary, in); err != nil {
		return "" // its tests need files that are changed
	}
	t := &test{binary: binary, dir: folder, timeout: time.Minute, args: []string{"-test.failfast"}}
	out, timedOut, err := t.run(n)
	switch failed := failedTest.FindStringSubmatch(out); {
	case err == nil:
		return ""
	case failed != nil:
		return failed[1]
	case timedOut:
		return "a test never ends"
	case strings.Contains(out, "panic"):
		return "a test panics"
	}
	return "a test fails"
}
