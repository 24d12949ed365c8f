package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"troupe/node"
)

// TestOnSignal checks the table of onSignal.
func TestOnSignal(t *testing.T) {
	for _, tc := range []struct {
		ending bool
		signal os.Signal
		want   action
	}{
		{false, syscall.SIGTERM, startDraining},
		{false, syscall.SIGINT, startDraining},
		{false, syscall.SIGHUP, startDraining},
		{true, syscall.SIGTERM, exitNow}, {true, syscall.SIGINT, exitNow}, {true, syscall.SIGHUP, ignoreSignal},
	} {
		if got := onSignal(tc.ending, tc.signal); got != tc.want {
			t.Errorf("ending %v, %v: %v, want %v", tc.ending, tc.signal, got, tc.want)
		}
	}
}

// TestDrainGrace checks the grace after each signal and for each combination of options.
func TestDrainGrace(t *testing.T) {
	for s, want := range map[os.Signal]time.Duration{syscall.SIGTERM: 7, syscall.SIGHUP: 7, syscall.SIGINT: 0} {
		if got := graceAfter(stoppedBySignal{s}, 7); got != want {
			t.Errorf("%v: %d, want %d", s, got, want)
		}
	}
	for _, tc := range []struct {
		timeout, grace string
		want           time.Duration
	}{
		{"", "", 5 * time.Second}, {"1m", "", 5 * time.Second}, {"4s", "", 2 * time.Second}, {"0", "", 0},
		{"1m", "20s", 20 * time.Second}, {"1m", "0s", 0},
	} {
		s, err := resolveUnchecked(Options{DrainTimeout: tc.timeout, DrainGrace: tc.grace}, "")
		if err != nil || s.drainGrace() != tc.want {
			t.Errorf("%+v: %v, %v", tc, s.drainGrace(), err)
		}
	}
}

// TestHungStartIsAbandoned checks that a signal ends a start that never returns.
func TestHungStartIsAbandoned(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gate := make(chan struct{})
	defer close(gate)
	cancel(stoppedBySignal{os.Interrupt})
	_, err := startOrAbandon(ctx, func() (*node.Node, error) { <-gate; return nil, nil })
	if !errors.As(err, &stoppedBySignal{}) {
		t.Errorf("%v", err)
	}
}

// TestSignalsWhileStarting signals a node in each state in which a start may block for long. It
// must exit with status 0 before its own timeout.
func TestSignalsWhileStarting(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else nodes inherit that nohup ignores it, and ignore it too
	defer signal.Stop(hangups)
	for name, begins := range map[string]func(t *testing.T, data string) blockedStart{
		"NATS accepts but does not answer": func(t *testing.T, _ string) blockedStart {
			silent, accepted := silentListener(t)
			return blockedStart{[]string{"--join", "nats://" + silent}, func(<-chan string) { <-accepted }}
		},
		"nothing listens at --join": func(t *testing.T, _ string) blockedStart {
			waits := func(log <-chan string) { waitForLog(t, log, "waiting for NATS") }
			return blockedStart{[]string{"--join", "nats://" + unusedAddr(t)}, waits}
		},
		"no majority": func(t *testing.T, _ string) blockedStart {
			return blockedStart{[]string{"--nats-listen", "127.0.0.1:0", "--nats-cluster-listen", "127.0.0.1:0",
				"--nats-routes", "nats://" + unusedAddr(t) + ",nats://" + unusedAddr(t) + ",nats://" + unusedAddr(t)},
				func(log <-chan string) { waitForLog(t, log, "Waiting for routing") }}
		},
		"the disk hangs": func(t *testing.T, data string) blockedStart {
			if err := unix.Mkfifo(filepath.Join(data, "instance"), 0o600); err != nil {
				t.Fatal(err)
			}
			reads := func(log <-chan string) { waitForReader(t, data, log) }
			return blockedStart{[]string{"--nats-listen", "127.0.0.1:0"}, reads}
		},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(name+", "+signal.String(), func(t *testing.T) {
				data := t.TempDir()
				w := begins(t, data)
				node, log := launch(t, append([]string{"up", "--data", data, "--http", "127.0.0.1:0",
					"--devices", "host:1x64MiB"}, w.args...)...)
				w.until(log)
				signaled := time.Now()
				if err := node.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				for range log { // read to the end before Wait closes the pipe
				}
				if err := node.Wait(); err != nil {
					t.Errorf("exited with %v", err)
				}
				t.Logf("exited after %v", time.Since(signaled).Round(time.Millisecond))
			})
		}
	}
}

// blockedStart describes a node that blocks while it starts.
type blockedStart struct {
	args  []string
	until func(log <-chan string) // waits until the node blocks
}

// launch starts a node and returns it with the lines of its log. A timeout kills it.
func launch(t *testing.T, args ...string) (*exec.Cmd, <-chan string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // shorter than the timeouts of a start
	t.Cleanup(cancel)
	node := command(ctx, t, args...)
	out, err := node.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return node, lines
}

// waitForLog waits for a log line that contains a text.
func waitForLog(t *testing.T, log <-chan string, text string) {
	t.Helper()
	for line := range log {
		if strings.Contains(line, text) {
			return
		}
	}
	t.Fatalf("the log lacks %q", text)
}

// waitForReader waits until the node reads its instance file, which is a FIFO without a writer.
func waitForReader(t *testing.T, data string, log <-chan string) {
	t.Helper()
	for {
		fd, err := unix.Open(filepath.Join(data, "instance"), unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			t.Cleanup(func() { _ = unix.Close(fd) })
			return
		}
		if !errors.Is(err, unix.ENXIO) { // no reader yet
			t.Fatal(err)
		}
		select {
		case _, open := <-log:
			if !open {
				t.Fatal("the node has exited")
			}
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// silentListener accepts connections and never answers. It sends on the channel for each
// connection.
func silentListener(t *testing.T) (address string, accepted <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connected := make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connected <- struct{}{}
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String(), connected
}

// unusedAddr returns an address without a listener.
func unusedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
