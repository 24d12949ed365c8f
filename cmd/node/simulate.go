package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"troupe/core/cost"
	"troupe/engine/llama"
	"troupe/modelfile"
	"troupe/node"
	"troupe/simulate"
	"troupe/simulate/page"
	"troupe/simulate/scenario"
)

type simulateCommand struct {
	Scenarios []string `arg:"" optional:"" name:"scenario" placeholder:"FILE" help:"Scenario, a YAML file."`
	Output    string   `name:"output" short:"o" enum:"table,json,csv" default:"table" help:"table, json or csv."`
	Seed      *uint64  `name:"seed" placeholder:"N" help:"Seed of the generated requests, instead of the scenario's."`
	Seeds     int      `name:"seeds" default:"1" placeholder:"N" help:"Simulate N seeds in parallel."`
	Set       []string `name:"set" sep:"none" placeholder:"KEY=VALUE" help:"${simset}"`
	Compare   bool     `name:"compare" help:"Compare the scenarios with the first one, seed by seed."`
	Sweep     []string `name:"sweep" sep:"none" placeholder:"KEY=A,B,C" help:"${simsweep}"`
	HTML      string   `name:"html" placeholder:"FILE" help:"Write a page with plots to FILE."`
	Series    bool     `name:"series" help:"Add the figures over time to the JSON."`
	Record    string   `name:"record" placeholder:"FILE" help:"Write each decision to FILE, as lines of JSON."`
	Replay    string   `name:"replay" placeholder:"FILE" help:"${simreplay}"`
	OneByOne  bool     `name:"one-by-one" help:"Run each step by itself; the results are the same."`
	recordingOptions
}

func (simulateCommand) Help() string {
	return `Runs a cluster on virtual time: the decisions are those of the product (which replica serves a request,
which sequences run in a step, which KV blocks are shared, evicted, offloaded and restored, which adapters are on a
device, which replica of a device runs next), and the time of each step comes from a cost model. No GPU is needed. The
same scenario and seed give the same results, byte for byte, on any number of cores. What it leaves out is in
docs/howto/simulate.md.

  TTFT       time to first token
  TPOT       mean time of each further token of a request
  IN SLO     share of all requests that met the slo of their deployment
  GOODPUT/s  requests per second that met it
  BUSY       share of the device-hours in which steps of the model ran
  KV HITS    share of the tokens of prompts that were found in KV blocks
  PREEMPTED  sequences that were returned to the queue

A key is a path in the scenario as error messages print it, or with names instead of numbers: deployments[0].replicas or
deployments.chat.replicas. Several --sweep give a grid, of at most 256 points. With --compare and --sweep, all
alternatives have the same seeds.

Examples:

  troupe simulate examples/scenarios/two-models.yaml
  troupe simulate examples/scenarios/two-models.yaml --seeds 10 -o csv
  troupe simulate examples/scenarios/two-models.yaml --html two-models.html
  troupe simulate examples/scenarios/two-models.yaml --set workload.chat.rate=8
  troupe simulate --compare today.yaml tomorrow.yaml --seeds 5
  troupe simulate examples/scenarios/two-models.yaml --sweep deployments.chat.replicas=1,2,3 --html sweep.html
  troupe simulate examples/scenarios/two-models.yaml --record decisions.jsonl
  troupe simulate --replay decisions.jsonl
  troupe simulate --recording monday.rec.gz
  troupe simulate --recording monday.rec.gz --check-decisions`
}

// Run simulates the scenarios for each seed.
func (s simulateCommand) Run(c console) error {
	node.SetGCPercent() // the heap is small here too
	if done, err := s.runRecording(c); done {
		return err
	}
	if err := s.check(); err != nil {
		return &usageError{err}
	}
	if s.Replay != "" {
		return s.replay(c)
	}
	runs, err := s.read()
	if err != nil {
		return &usageError{err}
	}
	var out *os.File // is opened first, so that no run is in vain
	if s.HTML != "" {
		if out, err = os.Create(s.HTML); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if err := s.runAll(runs, c); err != nil {
		return err
	}
	if out != nil {
		if err := errors.Join(page.Write(out, runs.alternatives, build()), out.Close()); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	return s.print(c, runs.alternatives)
}

// check returns an error if options do not go together.
func (s simulateCommand) check() error {
	several := s.Seeds > 1 || len(s.Sweep) > 0 || s.Compare
	switch {
	case s.Replay != "":
		return s.checkReplay()
	case len(s.Scenarios) == 0:
		return errors.New("no scenario is given; name a file such as examples/scenarios/two-models.yaml, or set " +
			"--recording")
	case s.Seeds < 1 || s.Seeds > 1<<20:
		return fmt.Errorf("--seeds is %d; simulate at least 1", s.Seeds)
	case s.Compare && len(s.Sweep) > 0:
		return errors.New("--compare and --sweep are both given; leave one of them out")
	case s.Compare && len(s.Scenarios) < 2:
		return fmt.Errorf("--compare needs at least two scenarios, and there is only %s", s.Scenarios[0])
	case !s.Compare && len(s.Scenarios) > 1:
		return fmt.Errorf("there are %d scenarios; add --compare, or name one", len(s.Scenarios))
	case s.Series && s.Output != "json":
		return fmt.Errorf("--series is for -o json, and the output is %s; use --html for plots", s.Output)
	case s.Record != "" && several:
		return errors.New("--record writes one run; leave out --seeds, --compare and --sweep")
	}
	return nil
}

func (s simulateCommand) print(c console, all []simulate.Alternative) error {
	if !s.Series {
		for _, a := range all {
			for i := range a.Runs {
				a.Runs[i].Series = nil
			}
		}
	}
	several := s.Compare || len(s.Sweep) > 0
	switch {
	case s.Output == "json" && several:
		return simulate.PrintAlternativesJSON(c.out, all)
	case s.Output == "json":
		return simulate.PrintJSON(c.out, all[0].Runs)
	case s.Output == "csv" && several:
		return simulate.PrintAlternativesCSV(c.out, all)
	case s.Output == "csv":
		return simulate.PrintCSV(c.out, all[0].Runs)
	case s.Compare:
		return simulate.PrintComparison(c.out, all)
	case several:
		return simulate.PrintSweep(c.out, all)
	}
	return simulate.PrintTable(c.out, all[0].Runs)
}

// factsOf reads the facts of a model from its folder.
func factsOf(folder string) (cost.Model, error) {
	c, err := llama.ReadConfig(modelfile.Roots{}, folder)
	return cost.Model{Layers: c.Layers, Hidden: c.Hidden, Intermediate: c.Intermediate, Vocab: c.Vocab, Heads: c.Heads,
		KVHeads: c.KVHeads, HeadDim: c.HeadDim, Tied: c.TiedEmbeddings, ContextTokens: c.ContextTokens}, err
}

// settings returns the keys that --set changes.
func (s simulateCommand) settings() (set []simulate.Setting, err error) {
	for _, text := range s.Set {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--set %s has no value; write KEY=VALUE, such as deployments.chat.replicas=2", text)
		}
		set = append(set, simulate.Setting{Key: key, Value: value})
	}
	return set, nil
}

// read reads the scenarios, and expands the grid.
func (s simulateCommand) read() (*simulatedRuns, error) {
	set, err := s.settings()
	if err != nil {
		return nil, err
	}
	points, err := scenario.Grid(s.Sweep)
	if err != nil {
		return nil, fmt.Errorf("--sweep: %w", err)
	}
	if slices.ContainsFunc(points[0], func(p simulate.Setting) bool { return p.Key == "seed" }) {
		return nil, errors.New("--sweep seed: all points have the same seeds; use --seeds")
	}
	runs := &simulatedRuns{}
	for _, file := range s.Scenarios {
		for _, point := range points {
			all := append(set[:len(set):len(set)], point...)
			read, err := scenario.Read(file, factsOf, all...)
			if err != nil && len(all) > 0 {
				err = fmt.Errorf("with %s: %w", nameOf(file, all), err)
			}
			if err != nil {
				return nil, err
			}
			runs.scenarios = append(runs.scenarios, read)
			runs.alternatives = append(runs.alternatives, simulate.Alternative{Name: nameOf(file, point), Set: point})
		}
	}
	return runs, nil
}

// nameOf returns the name of an alternative: its file, or the point of a grid.
func nameOf(file string, point []simulate.Setting) string {
	if len(point) == 0 {
		return file
	}
	var all []string
	for _, s := range point {
		all = append(all, s.String())
	}
	return strings.Join(all, " ")
}
