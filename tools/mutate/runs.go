package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	violated = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: ((?:quiet )?seed \d+: .*|all seeds: .*)$`)
	logged   = regexp.MustCompile(`^\s+\w+_test\.go:\d+: (.*)$`)
	panicked = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)$`)
)

var errFailed = errors.New("the test fails")

// result is what a process has written, and the processor time that it took.
type result struct {
	out  string
	late bool // it was ended after its time
	used time.Duration
}

// execute runs a test with the change of a number.
func execute(binary, folder, number string, limit time.Duration, args ...string) (r result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.WaitDelay = folder, time.Second
	cmd.Env = append(os.Environ(), "MUTANT="+number, "GOGC=400", "GOMAXPROCS=2")
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	r = result{out: b.String(), late: ctx.Err() != nil}
	if cmd.ProcessState != nil {
		r.used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	var exit *exec.ExitError
	if r.late || errors.As(err, &exit) {
		err = errFailed
	}
	return r, err
}

// course is what the runs show of a change.
type course struct {
	Found   bool
	Runs    int           // in the order of the parts until the change was found, with those that do not reach it
	Tried   int           // those of them that reach it
	In      string        // part that has found it
	By      string        // first violated property, or timeIsUp
	Differs bool          // a run took another course than without the change
	Took    time.Duration // processor time
}

// timeIsUp is the course.By of a change that was not found within the limit of processor time, although more
// parts reach it.
const timeIsUp = "time is up"

// try runs the parts that reach the change of a number until one fails, or they have taken the limit of
// processor time.
func try(binary string, n int, parts []part, limit time.Duration) (c course, err error) {
	for _, p := range parts {
		if !p.Reach[n] {
			c.Runs += p.Runs
			continue
		}
		if c.Took > limit {
			c.By = timeIsUp
			break
		}
		r, err := execute(binary, simulation, strconv.Itoa(n), 30*time.Second+30*p.Took, p.arguments()...)
		c.Took += r.used
		if err != nil && !errors.Is(err, errFailed) {
			return c, err
		}
		ended := 0
		for line := range strings.Lines(r.out) {
			if run := runEnded.FindStringSubmatch(strings.TrimSuffix(line, "\n")); run != nil {
				ended++
				c.Differs = c.Differs || p.Traces[run[1]] != run[2]
			}
		}
		if err == nil {
			c.Runs, c.Tried = c.Runs+p.Runs, c.Tried+p.Runs
			continue
		}
		c.Found, c.Runs, c.Tried, c.In = true, c.Runs+max(ended, 1), c.Tried+max(ended, 1), p.String()
		if c.By, err = reason(r.out, r.late); err != nil {
			return c, err
		}
		break
	}
	return c, nil
}

// reason returns why a test has failed.
func reason(out string, late bool) (string, error) {
	first, broken := violated.FindStringSubmatch(out), panicked.FindString(out)
	switch {
	case first != nil:
		return first[1], nil
	case late:
		return "the run never ends", nil
	case broken != "":
		return broken, nil
	case lastLog(out) != "":
		return lastLog(out), nil
	}
	return "", fmt.Errorf("the test failed without a reason\n%s", out)
}

// lastLog returns the last line that a test has logged before it failed, other than that a run ended.
func lastLog(out string) (last string) {
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "--- FAIL: ") {
			return last
		}
		if m := logged.FindStringSubmatch(line); m != nil && !runEnded.MatchString(line) {
			last = m[1]
		}
	}
	return ""
}
