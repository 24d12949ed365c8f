package adapters

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/core/lora"
	"troupe/workload"
)

const seeds = 5

// strategies are the rows of the tables.
var strategies = []struct {
	name    string
	policy  lora.Policy
	popular int
}{
	{"first come, first served", lora.Policy{FirstCome: true}, 0},
	{"resident first", lora.Policy{}, 0},
	{"… and prefetch", lora.Policy{Lookahead: 10}, 10},
	{"… and at most 32 adapters", lora.Policy{Lookahead: 10, MaxAdapters: 32}, 10},
	{"… and at most 64 adapters", lora.Policy{Lookahead: 10, MaxAdapters: 64}, 10},
}

// Write runs all simulations and writes adapters.md and its plot to a folder. It leaves out the
// recorded trace if its file is missing.
func Write(dir, arena string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	made, err := generatedTable(dir)
	if err != nil {
		return err
	}
	real, err := traceTable(arena)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "adapters.md"), []byte(head+made+real+memoryTable()), 0o644)
}

const head = `# Many adapters on one base model, simulated

Written by ` + "`make sim`" + `; do not edit. **Everything here is simulated**: core/lora makes the decisions,
as on a replica, and a timing model gives the durations of steps and copies.
No GPU was used, and none of these figures was measured on one.

- **first token**: from the request's arrival to the end of the step that computes its prompt.
- **loads**: adapters copied to the device, per second.
- **cold starts**: requests whose adapter was not on the device at arrival, per second.
- **visible**: cold starts that missed a step with room for them because of their adapter, per second.
- **ahead**: prefetches by popularity, without a request, per second.
- **LRU** and **optimum** (Belady's): loads of a cache of that many adapters that serves the requests one by one.

A step takes the longer of its memory traffic and its arithmetic.
Adapters are copied from host memory over one link, one at a time.
`

// describe lists a setting's parameters.
func describe(s Setting) string {
	l := s.Model.Layout(s.Rank)
	return fmt.Sprintf(
		`
%s: %.1f TB/s and %.0f TFLOP/s achieved per GPU, %s fixed per step;
link %.0f GB/s, and %s per load.
Adapters of rank %d for q, k, v and o: %.1f MB, %d pages, %s to load; %d fit on the device.
At most %d sequences and %d tokens per step, and %d waiting requests; age limit 500 ms.
Popularity halves in 60 s; a request protects its adapter for 5 s from eviction for a prefetch.
`,
		s.Model.Name, s.Model.Bandwidth/1e12, s.Model.Arithmetic/1e12, s.Model.Fixed, s.Model.Link/1e9, s.Model.PerLoad,
		s.Rank, float64(l.Bytes())/1e6, l.Pages(), s.Model.load(l.Bytes()).Round(10*time.Microsecond), s.Resident,
		s.Sequences, s.StepTokens, s.Waiting,
	)
}

const tableHead = "\n| strategy | first token, mean | p99 | tokens/s | loads/s | of the optimum | " +
	"cold starts/s | visible/s | ahead/s | refused |\n" +
	"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"

// generatedTable returns the table of a thousand generated adapters.
func generatedTable(dir string) (string, error) {
	s := Setting{
		Model: llama70B, Rank: 16, Resident: 76, Sequences: 128, StepTokens: 2048, Waiting: 1000, From: time.Minute,
	}
	load := thousandAdapters
	span := (load.Length - s.From).Seconds()
	var least, recent []float64
	var traces [][]workload.Request
	outcomes := make([][]Outcome, len(strategies))
	for seed := range uint64(seeds) {
		trace := generate(load, seed+1)
		traces = append(traces, trace)
		least = append(least, float64(optimum(trace, s.Resident, s.From))/span)
		recent = append(recent, float64(lru(trace, s.Resident, s.From))/span)
		for i, strategy := range strategies {
			s.Policy, s.Popular = strategy.policy, strategy.popular
			outcomes[i] = append(outcomes[i], simulate(s, trace))
			fmt.Fprintf(os.Stderr, "seed %d, %s\n", seed+1, strategy.name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
## A thousand adapters
%s
Load: %d adapters, %.0f requests per second (Poisson), Zipf %.1f, prompts of %.0f and outputs of %.0f tokens on average
(exponential), %s, of which the first %s is not counted. %d seeds: means, with minimum and maximum in brackets.
`, describe(s), load.Adapters.Len(), load.Rate, load.Adapters.Zipf, load.Prompt.Exponential, load.Output.Exponential,
		load.Length, s.From, seeds)
	b.WriteString(tableHead)
	var names []string
	var first []Outcome
	for i, strategy := range strategies {
		names, first = append(names, strategy.name), append(first, outcomes[i][0])
		b.WriteString(line(strategy.name, outcomes[i], least))
	}
	fmt.Fprintf(&b, `
LRU: %s loads per second. Optimum, which knows the future: %s.
A cache that knows the popularity of each adapter, but not the future, needs at least %.1f, which is %.2f of the optimum
(Aho, Denning and Ullman, 1971).
%s

![distributions of the time to first token](adapters.svg)

Seed 1.
`, spread(recent, "%.1f"), spread(least, "%.1f"), online(load, s.Resident), online(load, s.Resident)/mean(least),
		aims(outcomes, least))
	b.WriteString(orderTable(s, traces, least))
	return b.String(), draw(filepath.Join(dir, "adapters.svg"), names, first)
}

// traceTable returns the table of the arena trace.
func traceTable(path string) (string, error) {
	trace, err := readTrace(path)
	if errors.Is(err, os.ErrNotExist) {
		return "\n## A recorded trace\n\nLeft out: the trace is missing.\n", nil
	}
	if err != nil {
		return "", err
	}
	s := Setting{Model: llama7B, Rank: 8, Resident: 8, Sequences: 64, StepTokens: 2048, Waiting: 1000}
	span := trace[len(trace)-1].At.Seconds()
	least := float64(optimum(trace, s.Resident, 0)) / span
	var b strings.Builder
	fmt.Fprintf(&b, `
## A recorded trace
%s
Load: the trace arena-multilora, %d requests for 27 adapters in %.0f s; one run, since nothing is random.
`, describe(s), len(trace), span)
	b.WriteString(tableHead)
	var outcomes [][]Outcome
	for _, strategy := range strategies {
		s.Policy, s.Popular = strategy.policy, strategy.popular
		outcomes = append(outcomes, []Outcome{simulate(s, trace)})
		b.WriteString(line(strategy.name, outcomes[len(outcomes)-1], []float64{least}))
	}
	s.Policy, s.Popular, s.Order = strategies[2].policy, strategies[2].popular, byNextRequest
	b.WriteString(line("… and prefetch, known future", []Outcome{simulate(s, trace)}, []float64{least}))
	fmt.Fprintf(
		&b, "\nLRU: %.3f loads per second. Optimum: %.3f.\n%s\n", float64(lru(trace, s.Resident, 0))/span, least,
		aims(outcomes, []float64{least}),
	)
	return b.String(), nil
}

// aims lists the strategies that meet each aim with every seed.
func aims(outcomes [][]Outcome, least []float64) string {
	meet := func(good func(i int, o Outcome) bool) string {
		var names []string
		for i, strategy := range strategies {
			all := true
			for j, o := range outcomes[i] {
				all = all && good(j, o)
			}
			if all {
				names = append(names, "*"+strategy.name+"*")
			}
		}
		return cmp.Or(strings.Join(names, "; "), "none")
	}
	return fmt.Sprintf(
		"Aim: loads within 1.15 of the optimum. Met by: %s.\nAim: fewer than 0.1 visible cold starts\n"+
			"per second. Met by: %s.",
		meet(func(i int, o Outcome) bool { return o.Loads <= 1.15*least[i] }),
		meet(func(_ int, o Outcome) bool { return o.Visible < 0.1 }),
	)
}

// line returns a strategy's row.
func line(name string, outcomes []Outcome, least []float64) string {
	column := func(format string, value func(i int, o Outcome) float64) string {
		var all []float64
		for i, o := range outcomes {
			all = append(all, value(i, o))
		}
		return " | " + spread(all, format)
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return "| " + name +
		column("%.1f ms", func(_ int, o Outcome) float64 { return ms(o.Mean) }) +
		column("%.1f ms", func(_ int, o Outcome) float64 { return ms(o.P99) }) +
		column("%.0f", func(_ int, o Outcome) float64 { return o.Tokens }) +
		column("%.2f", func(_ int, o Outcome) float64 { return o.Loads }) +
		column("%.2f", func(i int, o Outcome) float64 { return o.Loads / least[i] }) +
		column("%.2f", func(_ int, o Outcome) float64 { return o.Cold }) +
		column("%.2f", func(_ int, o Outcome) float64 { return o.Visible }) +
		column("%.2f", func(_ int, o Outcome) float64 { return o.Ahead }) +
		column("%.1f %%", func(_ int, o Outcome) float64 { return 100 * o.Refused }) + " |\n"
}

// spread formats the mean, and the minimum and maximum if there are several values.
func spread(all []float64, format string) string {
	text := fmt.Sprintf(format, mean(all))
	if len(all) > 1 && slices.Min(all) != slices.Max(all) {
		text += fmt.Sprintf(
			" ("+strings.Fields(format)[0]+"–"+strings.Fields(format)[0]+")", slices.Min(all), slices.Max(all),
		)
	}
	return text
}

func mean(all []float64) (sum float64) {
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}
