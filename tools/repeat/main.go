// Command repeat runs a command that runs tests, several times, and prints a table of the runs and
// their failures. In every second run it keeps all cores busy. The exit status is 1 if a run failed.
//
//	go run ./tools/repeat -n 10 -- make test
//
// The output of a run that failed is kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	n := flag.Int("n", 10, "`number` of runs")
	keep := flag.String("keep", filepath.Join(os.TempDir(), "troupe-repeat"), "`folder` for the output of failed runs")
	flag.Parse()
	if flag.NArg() == 0 || *n < 1 {
		fmt.Fprintln(os.Stderr, "repeat: no command; use repeat -n 10 -- make test")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all, err := repeat(ctx, *n, *keep, flag.Args())
	table(os.Stdout, all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "repeat:", err)
	}
	if err != nil || failed(all) > 0 {
		os.Exit(1)
	}
}

// result is the result of a run.
type result struct {
	busy         bool // all cores were kept busy
	elapsed, cpu time.Duration
	failed       bool
	failures     []string // tests, or packages without a failed test
	log          string   // the file with the output of a run that failed
}

// repeat runs a command n times, or until the context ends.
func repeat(ctx context.Context, n int, keep string, command []string) (all []result, err error) {
	for i := range n {
		r, err := run(ctx, filepath.Join(keep, fmt.Sprintf("%d.log", i+1)), i%2 == 1, command)
		if err != nil || ctx.Err() != nil {
			return all, errors.Join(err, ctx.Err())
		}
		fmt.Printf("run %d of %d: %s\n", i+1, n, r)
		all = append(all, r)
	}
	return all, nil
}

// run runs a command once. The log is left only if it fails.
func run(ctx context.Context, log string, busy bool, command []string) (r result, err error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return r, err
	}
	out, err := os.Create(log)
	if err != nil {
		return r, err
	}
	defer out.Close()
	if r.busy = busy; busy {
		defer keepBusy()()
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its processes
	cmd.Stdout, cmd.Stderr = out, out
	began := time.Now()
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return r, err
	}
	r.elapsed = time.Since(began)
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // with all that it has waited for
	if r.failed = err != nil; !r.failed {
		return r, os.Remove(log)
	}
	r.log = log
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return r, err
	}
	r.failures, err = failures(out)
	return r, err
}

func (r result) String() string {
	text := fmt.Sprintf("%s, %s of CPU", r.elapsed.Round(time.Second), r.cpu.Round(time.Second))
	if r.busy {
		text += ", all cores busy"
	}
	if r.failed {
		text += ", FAILED: " + strings.Join(r.failures, " ") + ", see " + r.log
	}
	return text
}

func failed(all []result) (n int) {
	for _, r := range all {
		if r.failed {
			n++
		}
	}
	return n
}
