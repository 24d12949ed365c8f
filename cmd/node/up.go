package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/troupe"
)

// drainWithin leaves a second of the ten in which a node promises to end.
const drainWithin = 9 * time.Second

type upCommand struct {
	Config  string `env:"TROUPE_CONFIG" placeholder:"FILE" type:"path" help:"YAML file with any of these options, named alike (nats_listen), and deployments."`
	Options `embed:""`
}

func (upCommand) Help() string {
	return `A flag beats the environment (TROUPE_HTTP for --http), which beats the file, which beats the default.

What was deployed is kept in the data folder and is served again after a restart. Ctrl-C drains and ends within 10 s; a second one ends at once.
Logs go to standard error, as JSON unless that is a terminal.

Examples:

  node up                                      one software GPU, nothing deployed yet
  node up --devices host:2x512MiB              two software GPUs
  node up --config examples/quickstart.yaml    with deployments, as the file says
  TROUPE_HTTP=:8080 node up                    reachable from other machines, port 8080

A file:

  devices: host:2x512MiB
  deployments:
    - name: kjv-2m                             what clients put into "model"
      path: ../models/kjv-2m                   relative to this file
      replicas: 2                              min_replicas and max_replicas: within which the planner may change it
      priority: standard                       batch, standard or interactive
      max_sequences: 64                        running at once in a replica
      max_waiting: 1024                        queued beyond that, then status 429`
}

// Run starts a node and returns when it has been told to end, and has.
func (u upCommand) Run(c console) error {
	s, err := settle(u.Options, u.Config)
	if err != nil {
		return &usageError{err}
	}
	lock, err := preflight(s)
	if err != nil {
		return err
	}
	defer lock.Close()
	log := newLog(c, s)
	ctx := untilSignal()
	cfg, err := s.node(log)
	if err != nil {
		return err
	}
	node, err := troupe.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	welcome(c.out, s, node)
	if s.Try != "" {
		if err := firstCompletion(ctx, c.out, s, node); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Msg("first completion failed; the node goes on serving")
		}
	}
	<-ctx.Done()
	fmt.Fprintln(c.out, "\nDraining. Ctrl-C again ends at once.")
	return drain(node)
}

func (s settings) node(log zerolog.Logger) (troupe.Config, error) {
	devices, err := parseDevices(s.Devices)
	if err != nil {
		return troupe.Config{}, err
	}
	return troupe.Config{
		Name: s.Name, DataDir: s.Data, HTTP: s.HTTP, NATSListen: s.NATSListen, Devices: devices,
		Deployments: s.Deployments, Log: log, Version: version(),
	}, nil
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. The second one ends the process.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx
}

// drain returns in time even if the node does not.
func drain(node *troupe.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- node.Stop(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return fmt.Errorf("not drained within %s; what was in flight is lost to its clients", drainWithin)
	}
}

// newLog writes JSON, or readable lines where a person looks on.
func newLog(c console, s settings) zerolog.Logger {
	level, _ := zerolog.ParseLevel(s.LogLevel) // checked with the other options
	out := c.log
	if f, ok := out.(*os.File); ok && isTerminal(f) {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Str("node", s.Name).Logger()
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
