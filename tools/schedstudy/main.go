package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"troupe/core/cost"
	"troupe/simulate"
	"troupe/simulate/scenario"
)

// studies are the parts of the page in their order, since some use the results of others.
var studies = []struct {
	name string
	plan func(*study) error // adds the jobs whose results are missing
}{{"capacity", (*study).capacities}, {"day", (*study).days}, {"sweep", (*study).sweeps},
	{"modes", (*study).modes}, {"multiples", (*study).multiples}, {"long", (*study).long},
	{"slots", (*study).slots}, {"zipf", (*study).zipf}}

func main() {
	s := &study{}
	var all []string
	for _, of := range studies {
		all = append(all, of.name)
	}
	parts := flag.String("run", strings.Join(all, ","), "studies whose missing results are computed; empty: none")
	flag.StringVar(&s.scenarios, "scenarios", "examples/scenarios", "folder of the scenarios")
	flag.StringVar(&s.solver, "solver", "tools/bound", "folder of the solver")
	flag.StringVar(&s.file, "results", "docs/simulations/scheduler.json", "file with results; those in it are kept")
	flag.StringVar(&s.page, "page", "docs/simulations/scheduler.md", "page to write")
	flag.IntVar(&s.seeds, "seeds", 5, "seeds of each simulation")
	flag.IntVar(&s.hours, "hours", 6, "hours in which a day passes, so that it can be simulated in less time")
	flag.IntVar(&s.workers, "workers", 2, "jobs that run at once")
	flag.Func("only", "regular `expression` for the names of the simulations to run and the bounds to compute",
		func(text string) (err error) {
			s.only, err = regexp.Compile(text)
			return err
		})
	flag.BoolVar(&s.renew, "renew", false, "run simulations again whose result is of another version")
	flag.Parse()
	if err := s.run(strings.Split(*parts, ",")); err != nil {
		slog.Error("study failed", "error", err)
		os.Exit(1)
	}
}

// study computes results and writes the page.
type study struct {
	scenarios, solver, file, page string
	seeds, hours, workers         int
	only                          *regexp.Regexp // nil: all simulations and bounds
	renew                         bool
	results                       results
	jobs                          []job
	versions                      map[string]string // by scenario
}

func (s *study) run(parts []string) error {
	if err := s.results.load(s.file); err != nil {
		return err
	}
	if err := s.readVersions(); err != nil {
		return err
	}
	for _, of := range studies {
		if !slices.Contains(parts, of.name) {
			continue
		}
		if err := of.plan(s); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		if err := s.work(of.name); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
	}
	return s.write()
}

// skips reports whether a simulation or a bound is not to be computed now.
func (s *study) skips(key string) bool { return s.only != nil && !s.only.MatchString(key) }

// read reads a scenario. Its models have facts, and no folders.
func (s *study) read(name string, set ...simulate.Setting) (*scenario.Scenario, error) {
	return scenario.Read(s.scenarios+"/"+name+".yaml",
		func(folder string) (cost.Model, error) {
			return cost.Model{}, fmt.Errorf("there is no model %s", folder)
		},
		set...)
}

// simulate plans a run of a scenario with settings, unless its result is known.
func (s *study) simulate(row, name string, seed int, set ...simulate.Setting) {
	s.simulateSome(row, name, seed, 0, set...)
}

// simulateSome is like simulate, with the first deployments only, unless their number is 0.
func (s *study) simulateSome(row, name string, seed, deployments int, set ...simulate.Setting) {
	key := fmt.Sprintf("%s/%d", row, seed)
	if r, known := s.results.Runs[key]; known && !(s.renew && r.Version != s.versions[name]) ||
		s.skips(key) {
		return
	}
	s.jobs = append(s.jobs, job{key, func() error {
		sc, err := s.read(name, set...)
		if err != nil {
			return err
		}
		source, err := sc.Requests(uint64(seed))
		if err != nil {
			return err
		}
		cfg := sc.Config
		if deployments > 0 {
			cfg, source = first(sc, source, deployments)
		}
		cfg.Seed = uint64(seed)
		r, err := simulate.Run(cfg, source)
		if err != nil {
			return err
		}
		of := runOf(r)
		of.Scenario, of.Version = name, s.versions[name]
		return s.keep(func(all *results) { all.Runs[key] = of })
	}})
}
