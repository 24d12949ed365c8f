package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"troupe/node"
)

const (
	// shutdownTimeout is how long a node may take to end once its requests have, or are cut off.
	shutdownTimeout = 5 * time.Second
	// abandonTimeout is how long a node that is starting may clean up once it is told to end.
	abandonTimeout = 500 * time.Millisecond
)

// stop is the cause of a context that ended by a signal.
type stoppedBySignal struct{ signal os.Signal }

func (s stoppedBySignal) Error() string { return "stopped by " + s.signal.String() }

// action is what a signal makes the process do.
type action int

const (
	ignoreSignal  action = iota
	startDraining        // to end: drain
	exitNow              // at once
)

// onSignal decides what to do on a signal.
//
//	            serving  ending
//	SIGTERM     begin    exit
//	SIGINT      begin    exit
//	SIGHUP      begin    ignore: a terminal that closes sends several
func onSignal(ending bool, s os.Signal) action {
	switch {
	case !ending:
		return startDraining
	case s == syscall.SIGHUP:
		return ignoreSignal
	}
	return exitNow
}

// graceAfter is how long a node still serves new requests after a signal. Ctrl-C is a person, who waits for it.
func graceAfter(cause error, grace time.Duration) time.Duration {
	if s, ok := cause.(stoppedBySignal); ok && s.signal == os.Interrupt {
		return 0
	}
	return grace
}

// signalContext returns a context that ends with the first SIGINT, SIGTERM or SIGHUP, with a stop as its cause. A
// second SIGINT or SIGTERM ends the process. A SIGHUP that nohup has the process ignore stays ignored.
func signalContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for s := range signals {
			switch onSignal(ctx.Err() != nil, s) {
			case startDraining:
				cancel(stoppedBySignal{s})
			case exitNow:
				os.Exit(1)
			}
		}
	}()
	return ctx
}

// startOrAbandon starts a node. Once ctx has ended it waits only a moment longer: a start may wait for what knows of
// no context, as a disk, or a server that does not answer. What is abandoned ends with the process.
func startOrAbandon(ctx context.Context, start func() (*node.Node, error)) (*node.Node, error) {
	type outcome struct {
		node *node.Node
		err  error
	}
	started := make(chan outcome, 1)
	go func() {
		node, err := start()
		started <- outcome{node, err}
	}()
	select {
	case o := <-started:
		return o.node, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-started:
		return o.node, o.err
	case <-time.After(abandonTimeout):
		return nil, context.Cause(ctx)
	}
}

// drain ends a node: for the grace it serves new requests, and from now on for the limit those under way finish. It
// returns in time even if the node does not.
func drainNode(node *node.Node, grace, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		if grace > 0 {
			node.Drain(ctx, grace)
		}
		stopped <- node.Stop(ctx)
	}()
	select {
	case err := <-stopped:
		return err
	case <-time.After(limit + shutdownTimeout):
		return fmt.Errorf("not drained within %s; what was in flight is lost to its clients", limit+shutdownTimeout)
	}
}
