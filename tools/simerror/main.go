// Command simerror measures the error of the simulator and writes docs/simulations/error.md.
//
// It calibrates the model that ships, on one software device alone and beside another busy one. Then it starts a
// cluster of three node processes with a software device each, and records two workloads. Workload A runs on one
// device: the costs are fitted to it. Workload B has other arrivals and lengths and runs on two devices: it judges.
// At most two devices are busy at once, so that two cores suffice.
//
// With -from, it takes the profiles and recordings that -keep left, and only simulates.
//
// More parts compare loads of adapters, models that sleep and are woken, and simulated replicas at real time, of which
// there are more than cores.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/core/cost"
	"troupe/core/route"
	"troupe/recording"
	"troupe/tools/profiles"
	"troupe/workload"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "simerror:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	calibrate, run time.Duration
	out, keep      string
	from           string          // empty: all is measured
	chosen         map[string]bool // parts
}

func run() error {
	var o options
	flag.DurationVar(&o.calibrate, "calibrate", time.Minute, "`time` of each of the two calibrations")
	flag.DurationVar(&o.run, "run", 3*time.Minute, "`time` of each of the two workloads")
	flag.StringVar(&o.out, "out", "docs/simulations/error.md", "`file` for the page")
	flag.StringVar(&o.keep, "keep", "", "`folder` for the profiles and recordings; empty: they are removed")
	flag.StringVar(&o.from, "from", "", "`folder` that -keep left: its recordings are simulated again")
	chosen := flag.String("parts", partNames(), "comma-separated `names` of what to compare")
	flag.Parse()
	o.chosen = make(map[string]bool)
	for _, name := range strings.Split(*chosen, ",") {
		if !slices.Contains(strings.Split(partNames(), ","), name) {
			return fmt.Errorf("there is no part %q; use %s", name, partNames())
		}
		o.chosen[name] = true
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := cmp.Or(o.from, o.keep)
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "simerror-*"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	m := measurement{options: o, dir: dir, began: time.Now(), load: profiles.LoadAverage()}
	if err := m.measure(ctx); err != nil {
		return err
	}
	page, err := m.page()
	if err != nil {
		return err
	}
	return os.WriteFile(o.out, []byte(page), 0o644)
}

// measurement is what was measured.
type measurement struct {
	options
	dir           string
	began         time.Time
	load          string // average of the machine before
	alone, beside cost.Profile
	factor        float64 // of the costs, fitted to workload A
	outside       float64 // seconds of a request outside of steps, likewise
	a, b          judged
	sections      []section
}

// The workloads. Conversations make prompts share prefixes.
var (
	workloadA = workload.Load{
		Rate:   3,
		Prompt: workload.Lengths{Lognormal: workload.Lognormal{Median: 120, Sigma: 0.6}, Max: 600},
		Output: workload.Lengths{Lognormal: workload.Lognormal{Median: 40, Sigma: 0.5}, Max: 150},
		Conversation: workload.Conversation{
			Turns: 2, System: 64, Block: blockTokens,
		},
	}
	workloadB = workload.Load{
		Rate: 5, CV: 2,
		Prompt: workload.Lengths{Lognormal: workload.Lognormal{Median: 200, Sigma: 0.7}, Max: 800},
		Output: workload.Lengths{Exponential: 60, Max: 200},
		Conversation: workload.Conversation{
			Turns: 4, System: 32, Block: blockTokens,
		},
	}
)

const blockTokens = 16

// measure compares all chosen parts.
func (m *measurement) measure(ctx context.Context) error {
	binary := filepath.Join(m.dir, "troupe")
	if m.from == "" {
		say("building")
		if err := profiles.Run(ctx, "go", "build", "-o", binary, "./cmd/node"); err != nil {
			return err
		}
	}
	if m.chosen[steps] {
		if err := m.compareSteps(ctx, binary); err != nil {
			return err
		}
	}
	return m.compareParts(ctx, binary)
}

// costs returns the costs of the model on a device alone, which are calibrated once.
func (m *measurement) costs(ctx context.Context, binary string) (_ cost.Profile, err error) {
	dir := filepath.Join(m.dir, "alone")
	switch {
	case m.alone.Steps != nil:
	case m.from != "":
		m.alone, err = profiles.Only(dir)
	default:
		say("calibrating alone, %v", m.calibrate)
		m.alone, err = calibrated(ctx, binary, dir, m.calibrate)
	}
	return m.alone, err
}

// compareSteps calibrates, records workloads A and B, and simulates them.
func (m *measurement) compareSteps(ctx context.Context, binary string) error {
	_, err := m.costs(ctx, binary)
	if err != nil {
		return err
	}
	if m.from == "" {
		err = m.recordSteps(ctx, binary)
	} else {
		m.beside, err = profiles.Only(filepath.Join(m.dir, "beside"))
	}
	if err != nil {
		return err
	}
	for name, to := range map[string]*judged{"A": &m.a, "B": &m.b} {
		if to.recording, err = recording.Open(m.pathOf(name)); err != nil {
			return err
		}
		to.different = len(to.recording.CheckDecisions(route.DefaultWeights))
	}
	return m.judge()
}

// pathOf returns the recording of a workload.
func (m *measurement) pathOf(workload string) string { return filepath.Join(m.dir, workload+".rec.gz") }

// recordSteps measures the costs beside another device, and records workloads A and B.
func (m *measurement) recordSteps(ctx context.Context, binary string) (err error) {
	say("calibrating beside another device, %v", m.calibrate)
	if m.beside, err = calibratedBeside(ctx, binary, m.dir, m.calibrate); err != nil {
		return err
	}
	c, err := startCluster(ctx, binary, filepath.Join(m.dir, "nodes"), withDevice(3))
	if err != nil {
		return err
	}
	defer c.stop()
	for _, w := range []struct {
		name     string
		load     workload.Load
		seed     uint64
		replicas int
	}{{"A", workloadA, 1, 1}, {"B", workloadB, 2, 2}} {
		if err := c.scale(ctx, w.replicas); err != nil {
			return err
		}
		w.load.Length = m.run
		requests, err := workload.Collect(w.load.Requests(w.seed))
		if err != nil {
			return err
		}
		say("recording workload %s: %d requests to %d devices, %v", w.name, len(requests), w.replicas, m.run)
		if err := c.warm(ctx, deployed); err != nil {
			return err
		}
		if err := c.record(ctx, m.pathOf(w.name), requests); err != nil {
			return err
		}
	}
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
