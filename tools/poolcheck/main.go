// Command poolcheck serves six models on a pool of three node processes with the load of ten minutes, at real time,
// and kills the node whose planner leads in the middle. Every stream must be exact. Beside it stands what the simulator
// says of the same load and the same loss; docs/simulations/pool.md is the result.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"troupe/testkit/cluster"
	"troupe/tools/profiles"
)

const (
	base      = "models/kjv-2m"
	baseShape = "examples/simulated/shape-8b"
	seed      = 1
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "poolcheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	length := flag.Duration("run", 10*time.Minute, "`time` of the load")
	calibrate := flag.Duration("calibrate", time.Minute, "`time` of the calibration")
	out := flag.String("out", "docs/simulations/pool.md", "`file` for the page")
	flag.Parse()
	if *length < 2*downtime {
		return fmt.Errorf("-run %v is under %v", *length, 2*downtime)
	}
	dir, err := os.MkdirTemp("", "troupe-pool-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			_ = os.RemoveAll(dir) // the temporary folder
			return
		}
		err = fmt.Errorf("%w\ndata and logs are in %s", err, dir)
	}()
	defer cluster.RemoveBinaries()
	p := page{began: time.Now(), average: profiles.LoadAverage(), length: *length, models: pool()}
	binary := filepath.Join(dir, "troupe")
	say("building")
	if err := errors.Join(profiles.Run(ctx, "go", "build", "-o", binary, "./cmd/node"), cluster.Build()); err != nil {
		return err
	}
	for i, m := range p.models {
		if err := m.prepare(filepath.Join(dir, "models"), i); err != nil {
			return err
		}
	}
	say("calibrating for %v", *calibrate)
	real, err := profiles.Calibrate(ctx, binary, base, device, filepath.Join(dir, "profile"), *calibrate)
	if err != nil {
		return err
	}
	if p.live, err = play(ctx, dir, p.models, *length); err != nil {
		return err
	}
	say("simulating")
	if p.simulated, err = simulatePool(p.models, real, p.live, *length); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(*out, []byte(p.text()), 0o644), p.live.check())
}

// play records the answers, and plays the load to the cluster.
func play(ctx context.Context, dir string, all []*model, length time.Duration) (*live, error) {
	questions := make(map[*model][]question)
	var load []asked
	for i, m := range all {
		of, err := m.questions(seed + uint64(i))
		if err != nil {
			return nil, err
		}
		questions[m] = of
		asks, err := m.ask(of, length, seed+uint64(i))
		if err != nil {
			return nil, err
		}
		load = append(load, asks...)
	}
	slices.SortStableFunc(load, func(a, b asked) int { return cmp.Compare(a.at, b.at) })
	c, err := startCluster(ctx, filepath.Join(dir, "nodes"), all)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	say("recording the answers to %d questions", prompts*len(all))
	if err := record(ctx, c, all, questions); err != nil {
		return nil, err
	}
	say("waiting until models without requests sleep")
	if err := settle(ctx, c, all); err != nil {
		return nil, err
	}
	say("playing %d requests in %v", len(load), length)
	return playLoad(ctx, c, load, length)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
