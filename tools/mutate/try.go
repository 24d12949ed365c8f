package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"troupe/tools/mutate/mutant"
)

// outcome is what became of a change.
type outcome struct {
	change  change
	found   bool
	runs    int    // of the simulation, the last of which found it
	by      string // first violated property
	reached bool   // the changed code ran
	differs bool   // a run took another course than without the change
	own     string // of a survivor: what the tests of its own package find; empty: nothing
	took    time.Duration
}

// test is a test of the simulation.
type test struct {
	binary, dir string
	args        []string
	timeout     time.Duration
	traces      map[string]string // by run, without a change
}

var (
	runEnded = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: (.* trace )([0-9a-f]{16})$`)
	violated = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: ((?:quiet )?seed \d+: .*|all seeds: .*)$`)
	logged   = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*)$`)
	panicked = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)$`)
)

// run runs the test with the change of a number; 0: with none.
func (t *test) run(n int) (out string, timedOut bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.binary, t.args...)
	cmd.Dir, cmd.WaitDelay = t.dir, time.Second
	cmd.Env = append(os.Environ(), fmt.Sprint("MUTANT=", n), "GOGC=400")
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return "", false, err
	}
	if ctx.Err() == nil && exit == nil {
		return b.String(), false, nil
	}
	return b.String(), ctx.Err() != nil, errFailed
}

var errFailed = errors.New("the test fails")

// baseline runs the test without a change.
func (t *test) baseline() error {
	out, _, err := t.run(0)
	if err != nil {
		return fmt.Errorf("without a change: %w\n%s", err, out)
	}
	t.traces = make(map[string]string)
	for _, m := range runEnded.FindAllStringSubmatch(out, -1) {
		t.traces[m[1]] = m[2]
	}
	return nil
}

// try runs the test with a change.
func (t *test) try(n int, c change) (o outcome, err error) {
	began := time.Now()
	out, timedOut, err := t.run(n)
	if err != nil && !errors.Is(err, errFailed) {
		return o, err
	}
	o = outcome{change: c, found: err != nil, took: time.Since(began), reached: strings.Contains(out, mutant.Reached)}
	for _, m := range runEnded.FindAllStringSubmatch(out, -1) {
		o.runs++
		o.differs = o.differs || t.traces[m[1]] != m[2]
	}
	switch first, broken := violated.FindStringSubmatch(out), panicked.FindString(out); {
	case !o.found:
	case first != nil:
		o.by = first[1]
	case timedOut:
		o.runs++
		o.by = "the run never ends"
	case broken != "":
		o.runs++
		o.by = broken
	case lastLog(out) != "":
		o.by = lastLog(out)
	default:
		return o, fmt.Errorf("%s: the test failed without a reason\n%s", c, out)
	}
	return o, nil
}

// lastLog returns the last line that a test has logged before it failed, other than that a run ended.
func lastLog(out string) (last string) {
	out, _, failed := strings.Cut(out, "--- FAIL: ")
	for _, m := range logged.FindAllStringSubmatch(out, -1) {
		if failed && !runEnded.MatchString(m[0]) {
			last = m[1]
		}
	}
	return last
}
