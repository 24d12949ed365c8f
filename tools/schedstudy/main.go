package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"troupe/core/cost"
	"troupe/simulate"
	"troupe/simulate/scenario"
)

// studies are the parts of the page, each of which simulates one scenario. Those run that are named.
var studies = map[string]func(*study) error{"capacity": (*study).capacities, "day": (*study).days,
	"slots": (*study).slots, "zipf": (*study).zipf, "multiples": (*study).multiples, "sweep": (*study).sweeps}

func main() {
	s := &study{}
	parts := flag.String("run", "capacity,day,sweep,multiples,slots,zipf", "studies whose missing results are computed")
	flag.StringVar(&s.scenarios, "scenarios", "examples/scenarios", "folder of the scenarios")
	flag.StringVar(&s.solver, "solver", "tools/bound", "folder of the solver")
	flag.StringVar(&s.file, "results", "docs/simulations/scheduler.json", "file with results; those in it are kept")
	flag.StringVar(&s.page, "page", "docs/simulations/scheduler.md", "page to write")
	flag.IntVar(&s.seeds, "seeds", 5, "seeds of each simulation")
	flag.IntVar(&s.hours, "hours", 24, "hours in which a day passes, so that it can be simulated in less time")
	flag.StringVar(&s.only, "only", "", "part of the names of the simulations to run; empty: all")
	flag.Parse()
	if err := s.run(strings.Split(*parts, ",")); err != nil {
		slog.Error("study failed", "error", err)
		os.Exit(1)
	}
}

// study computes results and writes the page.
type study struct {
	scenarios, solver, file, page, only string
	seeds, hours                        int
	results                             results
}

func (s *study) run(parts []string) error {
	if err := s.results.load(s.file); err != nil {
		return err
	}
	for _, name := range []string{"capacity", "day", "sweep", "multiples", "slots", "zipf"} {
		if slices.Contains(parts, name) {
			if err := studies[name](s); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return s.write()
}

// read reads a scenario. Its models have facts, and no folders.
func (s *study) read(name string, set ...simulate.Setting) (*scenario.Scenario, error) {
	return scenario.Read(s.scenarios+"/"+name+".yaml",
		func(folder string) (cost.Model, error) {
			return cost.Model{}, fmt.Errorf("there is no model %s", folder)
		},
		set...)
}

// simulate runs a scenario with settings, unless its result is known.
func (s *study) simulate(row, name string, seed int, set ...simulate.Setting) error {
	return s.simulateSome(row, name, seed, 0, set...)
}

// simulateSome is like simulate, with the first deployments only, unless their number is 0.
func (s *study) simulateSome(row, name string, seed, deployments int, set ...simulate.Setting) error {
	key := fmt.Sprintf("%s/%d", row, seed)
	if _, known := s.results.Runs[key]; known || !strings.Contains(key, s.only) {
		return nil
	}
	slog.Info("simulating", "row", row, "seed", seed)
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
		return fmt.Errorf("%s: %w", row, err)
	}
	s.results.Runs[key] = runOf(r)
	return s.results.save(s.file)
}
