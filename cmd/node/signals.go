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
	// shutdownTimeout bounds the shutdown of a node after its requests have finished or were cut
	// off.
	shutdownTimeout = 5 * time.Second
	// abandonTimeout bounds the cleanup of a node that is stopped while starting.
	abandonTimeout = 500 * time.Millisecond
)

// stoppedBySignal is the cause of a context that a signal cancelled.
type stoppedBySignal struct{ signal os.Signal }

func (s stoppedBySignal) Error() string { return "stopped by " + s.signal.String() }

// action is what the process does on a signal.
type action int

const (
	ignoreSignal action = iota
	startDraining
	exitNow
)

// onSignal returns the action for a signal.
//
//	           serving        draining
//	SIGTERM    startDraining  exitNow
//	SIGINT     startDraining  exitNow
//	SIGHUP     startDraining  ignoreSignal, since a terminal that closes sends several
func onSignal(ending bool, s os.Signal) action {
	switch {
	case !ending:
		return startDraining
	case s == syscall.SIGHUP:
		return ignoreSignal
	}
	return exitNow
}

// graceAfter returns how long a node still serves new requests after a signal: zero after Ctrl-C,
// since a person waits for it.
func graceAfter(cause error, grace time.Duration) time.Duration {
	if s, ok := cause.(stoppedBySignal); ok && s.signal == os.Interrupt {
		return 0
	}
	return grace
}

// signalContext returns a context that the first SIGINT, SIGTERM or SIGHUP cancels, with
// stoppedBySignal as its cause. A second SIGINT or SIGTERM exits the process. SIGHUP stays ignored
// under nohup.
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

// startOrAbandon starts a node. When ctx ends it waits only abandonTimeout longer: a start may
// block on something without a context, such as a disk. The process exit ends what is abandoned.
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

// drainNode stops a node: it serves new requests during the grace, and running ones may finish
// until the limit. It returns in time even if the node does not.
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
		return fmt.Errorf("not drained within %s; in-flight requests were cut off", limit+shutdownTimeout)
	}
}
