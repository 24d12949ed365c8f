package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"troupe/testkit/cluster"
)

// Config describes a run.
type Config struct {
	Dir     string // for data and logs; the caller removes it
	Seed    uint64
	Length  time.Duration  // no step starts after it; a started step is finished
	Steps   int            // maximum number of steps; 0 means no limit
	Nodes   int            // default 3
	Clients int            // concurrent streams, default 24
	Tokens  int            // per stream, default cluster.StreamTokens
	Rest    time.Duration  // of a client between two streams during a fault, as of cluster.Load
	Kinds   []cluster.Kind // default: all that are possible on this machine
	Print   func(line string)
}

const (
	recoversWithin = cluster.TimeScale * 30 * time.Second // after a fault was repaired
	cleanWithin    = cluster.TimeScale * 20 * time.Second // after the last stream
	quitsWithin    = cluster.TimeScale * 5 * time.Second  // in a failed run
	// steps between checks for leftovers, during which the load is stopped
	cleanEvery = 6
)

// Run injects faults for a while. It prints its timeline as it happens and returns the first
// violation as an error.
func Run(ctx context.Context, cfg Config) error {
	r, err := start(ctx, cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	for end := time.Now().Add(cfg.Length); err == nil && time.Now().Before(end) && !r.enough(); {
		err = r.round(ctx, end)
	}
	if err != nil {
		r.show(ctx)
		r.Note("FAILED: %v", err)
		return err
	}
	r.Note("done: %d steps, %d streams correct; longest pause: %s", r.steps, len(r.pauses), cluster.Summarize(r.pauses))
	return nil
}

type run struct {
	*cluster.Cluster
	*cluster.Timeline
	cfg      Config
	schedule *schedule
	load     cluster.Load
	steps    int
	pauses   []time.Duration
}

// start starts the cluster and the model, and records the expected answers.
func start(ctx context.Context, cfg Config) (*run, error) {
	cfg.Nodes, cfg.Clients, cfg.Tokens = or(cfg.Nodes, 3), or(cfg.Clients, 24), or(cfg.Tokens, cluster.StreamTokens)
	r := &run{cfg: cfg, Timeline: &cluster.Timeline{Print: cfg.Print}}
	requests := cluster.WithAdapters(cluster.Requests(2*cfg.Clients, cfg.Tokens))
	answers, err := cluster.ReferenceAnswers(ctx, requests)
	if err != nil {
		return nil, fmt.Errorf("undisturbed run: %w", err)
	}
	r.Note("recorded the answers to %d requests", len(requests))
	setup := cluster.Config{Dir: cfg.Dir, Nodes: cfg.Nodes, NATS: natsOf(cfg), Seed: cfg.Seed}
	if why := cluster.CheckFabric(); why != nil {
		r.Note("no network faults: %v", why)
	} else {
		setup.Isolated = true
	}
	if r.Cluster, err = cluster.New(ctx, setup); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx, requests, answers); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// natsOf returns the NATS setup: embedded servers, or with an odd seed one external server.
func natsOf(cfg Config) cluster.NATS {
	switch {
	case cfg.Nodes == 1:
		return cluster.Embedded
	case cfg.Seed%2 == 1:
		return cluster.External
	}
	return cluster.Routed
}

func (r *run) prepare(ctx context.Context, requests []cluster.Request, answers []cluster.Answer) error {
	kinds := r.cfg.Kinds
	if kinds == nil {
		kinds = r.possible()
	}
	var names []string
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	r.schedule = newSchedule(r.cfg.Seed, names, len(r.Nodes), kinds)
	r.load = cluster.Load{Requests: requests, Answers: answers, Streams: r.cfg.Clients, Gateways: r.Nodes, Repeat: true,
		Rest: r.cfg.Rest}
	ctx, cancel := context.WithTimeout(ctx, recoversWithin)
	defer cancel()
	err := errors.Join(r.WaitMembers(ctx), r.Deploy(ctx, cluster.Spec(len(r.Nodes))), r.RegisterAdapters(ctx))
	if err != nil {
		r.show(ctx)
		return err
	}
	r.Note(
		"%d nodes serve %s and its adapters, NATS %s; seed %d, faults: %v", len(r.Nodes), cluster.ModelName,
		natsOf(r.cfg), r.cfg.Seed, kinds,
	)
	return nil
}

// possible returns the faults that can be injected into this cluster.
func (r *run) possible() []cluster.Kind {
	kinds := []cluster.Kind{cluster.CrashReplica}
	if len(r.Nodes) > 1 {
		kinds = append(kinds, cluster.Kill, cluster.Stop, cluster.Restart, cluster.Migrate, cluster.Drain)
		if r.Fabric != nil {
			kinds = append(kinds, cluster.Cut, cluster.CutOneWay, cluster.Isolate, cluster.Slow, cluster.Lossy)
		}
		if r.Server != nil {
			kinds = append(kinds, cluster.KillNATS)
		}
	}
	return kinds
}

func (r *run) enough() bool { return r.cfg.Steps > 0 && r.steps >= r.cfg.Steps }

// round runs some steps under one load and then checks for leftovers.
func (r *run) round(ctx context.Context, end time.Time) error {
	before, err := r.levels(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the streams of a failed round
	defer cancel()
	running := r.load.Start(ctx)
	for i := 0; i < cleanEvery && time.Now().Before(end) && !r.enough(); i++ {
		if err := r.step(ctx, running, r.schedule.next()); err != nil {
			return err
		}
		r.steps++
	}
	report, err := r.finish(running)
	if err != nil {
		return err
	}
	r.Note("%s", report)
	if err := report.Err(); err != nil {
		return err
	}
	r.pauses = append(r.pauses, report.Pauses...)
	slices.Sort(r.pauses)
	return r.clean(ctx, before)
}

// finish waits for the streams to end. Without a fault, none may hang.
func (r *run) finish(running *cluster.LoadRun) (cluster.Report, error) {
	done := make(chan cluster.Report, 1)
	go func() { done <- running.Finish() }()
	select {
	case report := <-done:
		return report, nil
	case <-time.After(recoversWithin):
		return cluster.Report{}, fmt.Errorf(
			"streams still running %s after the last fault was repaired", recoversWithin,
		)
	}
}

// inject injects the fault of a step. It chooses the replica now, and again if that replica has
// moved or gone meanwhile.
func (r *run) inject(ctx context.Context, s *Step) (mend func(context.Context) error, err error) {
	if s.Kind != cluster.CrashReplica && s.Kind != cluster.Migrate {
		r.Note("%s", s)
		return r.Inject(ctx, s.Fault)
	}
	err = cluster.Until(ctx, func() error {
		names, err := r.ReplicaNames(ctx)
		if err != nil {
			return err
		}
		if on := names[s.Replica%len(names)]; on != s.On {
			s.On = on
			r.Note("%s", s)
		}
		mend, err = r.Inject(ctx, s.Fault)
		return err
	})
	return mend, err
}

// step injects a fault, repairs it and waits until the cluster has recovered.
func (r *run) step(ctx context.Context, running *cluster.LoadRun, s Step) error {
	ctx, cancel := context.WithTimeout(ctx, s.Hold+2*recoversWithin)
	defer cancel()
	if err := running.WaitStreaming(ctx); err != nil {
		return fmt.Errorf("before %s: %w", s, err)
	}
	running.MarkOpen()
	began := time.Now()
	mend, err := r.inject(ctx, &s)
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	select {
	case <-time.After(s.Hold):
	case <-ctx.Done():
	}
	if err := mend(ctx); err != nil {
		return fmt.Errorf("repair %s: %w", s, err)
	}
	mended := time.Now()
	if err := r.WaitRecovered(ctx); err != nil {
		return fmt.Errorf("after %s: %w", s, err)
	}
	r.Note("  recovered %s after the repair", time.Since(mended).Round(time.Millisecond))
	if err := running.WaitMarked(ctx); err != nil {
		return fmt.Errorf("after %s: %w", s, err)
	}
	r.account(ctx, s, began, running.LongestPause())
	return nil
}
