package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"troupe/simulate"
	"troupe/simulate/scenario"
)

// simulatedRuns are the runs of alternatives: each with the same seeds.
type simulatedRuns struct {
	scenarios    []*scenario.Scenario // of each alternative
	alternatives []simulate.Alternative
}

// durations returns the duration of each alternative.
func (r *simulatedRuns) durations() (all []time.Duration) {
	for _, s := range r.scenarios {
		all = append(all, s.Config.Duration)
	}
	return all
}

// mostPanels is the largest number of alternatives for which a page has figures over time.
const mostPanels = 12

// seriesBuckets is the least number of buckets of the figures over time.
const seriesBuckets = 240

// runAll simulates all alternatives and seeds, as many at once as there are cores. Each run has one
// goroutine. All runs have the first scenario's seed and those that follow it.
func (s simulateCommand) runAll(runs *simulatedRuns, c console) error {
	first := runs.scenarios[0].Config.Seed
	if s.Seed != nil {
		first = *s.Seed
	}
	jobs := len(runs.scenarios) * s.Seeds
	progress := startRuns(c.log, runs.durations(), s.Seeds)
	errs := make([]error, jobs)
	for i := range runs.alternatives {
		runs.alternatives[i].Runs = make([]simulate.Result, s.Seeds)
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), jobs) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < jobs; i = int(next.Add(1)) - 1 {
				which, seed := i/s.Seeds, i%s.Seeds
				result, err := s.runSeed(runs.scenarios[which], first+uint64(seed), s.buckets(runs, seed), progress)
				runs.alternatives[which].Runs[seed], errs[i] = result, err
			}
		})
	}
	workers.Wait()
	progress.end()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("simulate %s: %w", runs.alternatives[i/s.Seeds].Name, err)
		}
	}
	return nil
}

// buckets returns the number of buckets of the figures over time, or 0 if they are not needed: pages have
// them for the first seed of a few alternatives.
func (s simulateCommand) buckets(runs *simulatedRuns, seed int) int {
	if s.Series || s.HTML != "" && seed == 0 && len(runs.scenarios) <= mostPanels {
		return seriesBuckets
	}
	return 0
}

func (s simulateCommand) runSeed(
	read *scenario.Scenario, seed uint64, buckets int, p *runsProgress,
) (simulate.Result, error) {
	requests, err := read.Requests(seed)
	if err != nil {
		return simulate.Result{}, err
	}
	cfg := read.Config
	cfg.Seed, cfg.StepByStep, cfg.Buckets = seed, s.OneByOne, buckets
	run := p.run(cfg.Duration)
	defer run.done()
	cfg.Progress = run.at
	if s.Record == "" {
		return simulate.Run(cfg, requests)
	}
	if cfg.Origin, err = read.Origin(); err != nil {
		return simulate.Result{}, fmt.Errorf("--record: %w", err)
	}
	cfg.Origin.Version = build()
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
	mu    sync.Mutex
	runs  int
	ended int
	all   time.Duration
	past  time.Duration
	shown string
}

func startRuns(out io.Writer, runs []time.Duration, seeds int) *runsProgress {
	p := &runsProgress{runs: len(runs) * seeds}
	for _, duration := range runs {
		p.all += duration * time.Duration(seeds)
	}
	if writesTerminal(out) {
		p.out = out
	}
	return p
}

// runProgress is the progress of one run.
type runProgress struct {
	of           *runsProgress
	length, past time.Duration
}

func (p *runsProgress) run(length time.Duration) *runProgress {
	return &runProgress{of: p, length: length}
}

// at notes how much of the run has been simulated. What follows the duration counts nothing.
func (r *runProgress) at(past time.Duration) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	past = min(past, r.length)
	r.of.past += past - r.past
	r.past = past
	r.of.show()
}

func (r *runProgress) done() {
	r.at(r.length)
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.ended++
	r.of.show()
}

// text returns what to show: "simulating: 40 %, 3 of 10 runs".
func (p *runsProgress) text() string {
	text := fmt.Sprintf("simulating: %d %%", int(100*p.past.Seconds()/p.all.Seconds()))
	if p.runs > 1 {
		text += fmt.Sprintf(", %d of %d runs", p.ended, p.runs)
	}
	return text
}

// show replaces the line if it has changed.
func (p *runsProgress) show() {
	if p.out == nil {
		return
	}
	if text := p.text(); text != p.shown {
		p.shown = text
		fmt.Fprint(p.out, "\r\x1b[K"+text)
	}
}

// end removes the line.
func (p *runsProgress) end() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
