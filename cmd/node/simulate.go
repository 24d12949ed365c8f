package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"troupe/core/cost"
	"troupe/engine/llama"
	"troupe/modelfile"
	"troupe/simulate"
	"troupe/simulate/scenario"
)

type simulateCommand struct {
	Scenario string  `arg:"" name:"scenario" placeholder:"FILE" help:"Scenario, a YAML file."`
	Output   string  `name:"output" short:"o" enum:"table,json,csv" default:"table" help:"table, json or csv."`
	Seed     *uint64 `name:"seed" placeholder:"N" help:"Seed of the generated requests, instead of the scenario's."`
	Seeds    int     `name:"seeds" default:"1" placeholder:"N" help:"Simulate N seeds in parallel, from the first on."`
	Record   string  `name:"record" placeholder:"FILE" help:"Write each decision to FILE, as lines of JSON."`
	OneByOne bool    `name:"one-by-one" help:"Run each step by itself. The results are the same, and take longer."`
}

func (simulateCommand) Help() string {
	return `Runs a cluster on virtual time: the decisions are those of the product (which replica serves a request,
which sequences run in a step, which KV blocks are shared, evicted, offloaded and restored, which
adapters are on a device, which replica of a device runs next), and the time of each step comes from a
cost model. No GPU is needed. The same scenario and seed give the same results, byte for byte. What it
leaves out is in docs/howto/simulate.md.

  TTFT       time to first token
  TPOT       mean time of each further token of a request
  IN SLO     share of all requests that met the slo of their deployment
  GOODPUT/s  requests per second that met it
  BUSY       share of the device-hours in which steps of the model ran
  KV HITS    share of the tokens of prompts that were found in KV blocks
  PREEMPTED  sequences that were returned to the queue

Examples:

  troupe simulate examples/scenarios/two-models.yaml
  troupe simulate examples/scenarios/two-models.yaml --seeds 10 -o csv
  troupe simulate examples/scenarios/two-models.yaml --record decisions.jsonl`
}

// Run simulates the scenario for each seed.
func (s simulateCommand) Run(c console) error {
	read, err := scenario.Read(s.Scenario, factsOf)
	if err != nil {
		return &usageError{err}
	}
	if s.Seeds < 1 || s.Seeds > 1<<20 {
		return &usageError{fmt.Errorf("--seeds is %d; simulate at least 1", s.Seeds)}
	}
	if s.Record != "" && s.Seeds > 1 {
		return &usageError{fmt.Errorf("--record writes one run, and --seeds is %d; leave one of them out", s.Seeds)}
	}
	first := read.Config.Seed
	if s.Seed != nil {
		first = *s.Seed
	}
	progress := startRuns(c.log, read.Config.Duration, s.Seeds)
	results, err := s.runAll(read, first, progress)
	progress.end()
	if err != nil {
		return fmt.Errorf("simulate %s: %w", s.Scenario, err)
	}
	switch s.Output {
	case "json":
		return simulate.PrintJSON(c.out, results)
	case "csv":
		return simulate.PrintCSV(c.out, results)
	}
	return simulate.PrintTable(c.out, results)
}

// factsOf reads the facts of a model from its folder.
func factsOf(folder string) (cost.Model, error) {
	c, err := llama.ReadConfig(modelfile.Roots{}, folder)
	return cost.Model{Layers: c.Layers, Hidden: c.Hidden, Intermediate: c.Intermediate, Vocab: c.Vocab, Heads: c.Heads,
		KVHeads: c.KVHeads, HeadDim: c.HeadDim, Tied: c.TiedEmbeddings, ContextTokens: c.ContextTokens}, err
}

// runAll simulates all seeds, as many at once as there are cores. Each run has one goroutine.
func (s simulateCommand) runAll(read *scenario.Scenario, first uint64, p *runsProgress) ([]simulate.Result, error) {
	results, errs := make([]simulate.Result, s.Seeds), make([]error, s.Seeds)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), s.Seeds) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < s.Seeds; i = int(next.Add(1)) - 1 {
				results[i], errs[i] = s.runSeed(read, first+uint64(i), p)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s simulateCommand) runSeed(read *scenario.Scenario, seed uint64, p *runsProgress) (simulate.Result, error) {
	requests, err := read.Requests(seed)
	if err != nil {
		return simulate.Result{}, err
	}
	cfg := read.Config
	cfg.Seed, cfg.StepByStep = seed, s.OneByOne
	var before time.Duration
	cfg.Progress = func(done time.Duration) {
		p.add(min(done, cfg.Duration) - before)
		before = min(done, cfg.Duration)
	}
	if s.Record == "" {
		return simulate.Run(cfg, requests)
	}
	f, err := os.Create(s.Record)
	if err != nil {
		return simulate.Result{}, fmt.Errorf("--record: %w", err)
	}
	cfg.Record = f
	result, err := simulate.Run(cfg, requests)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("--record: %w", closed)
	}
	return result, err
}

// runsProgress shows on a terminal how much virtual time all runs have simulated.
type runsProgress struct {
	out   io.Writer // nil: it is no terminal
	all   time.Duration
	done  atomic.Int64
	shown atomic.Int64 // percent
}

func startRuns(out io.Writer, each time.Duration, runs int) *runsProgress {
	p := &runsProgress{all: each * time.Duration(runs)}
	if writesTerminal(out) {
		p.out = out
	}
	return p
}

func (p *runsProgress) add(d time.Duration) {
	percent := 100 * p.done.Add(int64(d)) / int64(p.all)
	if p.out != nil && p.shown.Swap(percent) != percent {
		fmt.Fprintf(p.out, "\rsimulating: %d %%", percent)
	}
}

func (p *runsProgress) end() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r                \r")
	}
}
