// Command mutate checks the simulation of testkit/dst by breaking the protocols that it should
// check (mutation testing). A seed selects the changes, evenly over folders and kinds. All changes
// are built into one test, in which one at a time is put into effect. A change that no run of the
// simulation finds has survived: a property is missing, the change breaks nothing, or the time was up.
//
//	go run ./tools/mutate -seed 1 -n 60
//
// One pass without a change shows which runs reach which changes; each change is tried in those only, the
// likely ones first, until one fails or they have taken -limit of processor time. If none fails, the tests of
// the changed package are run. With -runs=false only these are run, which takes minutes instead of hours. The
// files themselves are not changed.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// folders have the protocols of the cluster: the machines of core, and the actors. Other packages of core
// compute or choose: a change there gives a worse choice, such as a slower route, and breaks no protocol
// (core/backend, capacity, cost, demand, loadsource, quota, route, sample, schedule, units, utilization). Three
// packages are below all protocols: core/table, actors/supervise and actors/model/replica/wire.
const folders = "core/session,core/deployment,core/leadership,core/replica,core/migrate,core/restore,core/offload," +
	"core/export,core/tier,core/remote,core/device,core/quarantine,core/router,core/lora,core/hbm,core/kv," +
	"core/batch,core/switching,core/preempt,core/wake,core/turns,core/hostcache,core/residency,core/planner," +
	"core/restart,core/health,core/verify,actors/adapter,actors/exporter,actors/gpu,actors/hostcache,actors/kvblock," +
	"actors/planner,actors/model/deployment,actors/model/replica,actors/model/replica/copier," +
	"actors/model/replica/migration,actors/model/replica/migration/transfer,actors/model/replica/tiering," +
	"actors/model/replicaset,actors/model/router,actors/model/session,actors/model/stepper"

// options are the flags.
type options struct {
	seed    uint64
	count   int
	seeds   int
	limit   time.Duration
	in      []string
	only    []int
	list    bool
	own     bool
	runs    bool
	keep    bool
	dir     string
	workers int
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "`seed` that selects the changes")
	flag.IntVar(&o.count, "n", 60, "`number` of changes")
	flag.IntVar(&o.seeds, "seeds", 25, "`number` of runs with faults")
	flag.DurationVar(&o.limit, "limit", time.Minute, "processor `time` after which no run begins with the same change")
	flag.BoolVar(&o.list, "list", false, "list the changes and run nothing")
	flag.BoolVar(&o.own, "own", true, "run the tests of a survivor's own package")
	flag.BoolVar(&o.runs, "runs", true, "try the changes in the runs of the simulation")
	flag.BoolVar(&o.keep, "keep", false, "keep what earlier builds of the tests have found")
	flag.StringVar(&o.dir, "dir", ".bin/mutate", "`folder` for tests and for results, with which a later call goes on")
	flag.IntVar(&o.workers, "p", 2, "`number` of changes that are tried at a time")
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
		if changes, err = withoutEquivalent(changes, equivalentText); err != nil {
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
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	m, err := prepare(o, all)
	if err != nil {
		return err
	}
	outcomes, err := m.all(o)
	if err != nil {
		return err
	}
	fmt.Println()
	summary(os.Stdout, o.seed, m.parts, outcomes)
	return nil
}
