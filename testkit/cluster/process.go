package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"troupe/testkit"
)

// pollInterval is the shortest interval between two attempts of Until.
const pollInterval = 10 * time.Millisecond

// Process is a running command in its own process group.
type Process struct {
	Name string
	Log  string // file with its output

	cmd         *exec.Cmd
	done        chan struct{}
	status      error       // set when done is closed
	killed      atomic.Bool // SIGKILL was sent
	terminating atomic.Bool // SIGTERM was sent
}

// start starts a command on a host and writes its output to a file.
func start(host *Host, name, log, path string, args ...string) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{Name: name, Log: log, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go p.startAndWait(host, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// startAndWait starts the process and waits for its end on one thread, which ends with it.
// Pdeathsig depends on the thread that started the process, and a thread that has entered a
// namespace must not be used again.
func (p *Process) startAndWait(host *Host, started chan<- error) {
	runtime.LockOSThread()
	err := host.enter()
	if err == nil {
		err = p.cmd.Start()
	}
	started <- err
	if err == nil {
		p.status = p.cmd.Wait()
		close(p.done)
	}
}

// Kill kills the process, as a power failure does, and waits until it has ended.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop suspends the process with SIGSTOP. It keeps its memory and connections.
func (p *Process) Stop() error { return p.signal(syscall.SIGSTOP) }

// Continue resumes a stopped process.
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

// Terminate sends SIGTERM and waits until the process has ended. Its exit status must be 0.
func (p *Process) Terminate(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended after SIGTERM: %w", p.Name, ctx.Err())
	}
	if p.status != nil {
		return fmt.Errorf("%s ended with %w after SIGTERM", p.Name, p.status)
	}
	return nil
}

// Quit sends SIGQUIT, on which Go's runtime writes the stacks of all goroutines to the log. It
// waits until the process has ended.
func (p *Process) Quit(ctx context.Context) error {
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended after SIGQUIT: %w", p.Name, ctx.Err())
	}
}

// signal sends a signal to the process group. It returns an error if the process has ended already,
// since nothing else may end it.
func (p *Process) signal(s syscall.Signal) error {
	if p.Ended() {
		return fmt.Errorf("%s has ended already: %v", p.Name, p.status)
	}
	switch s {
	case syscall.SIGKILL:
		p.killed.Store(true)
	case syscall.SIGTERM:
		p.terminating.Store(true)
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
		return fmt.Errorf("send %s to %s: %w", s, p.Name, err)
	}
	return nil
}

// close kills the process if it runs.
func (p *Process) close() {
	if p != nil && !p.Ended() {
		_ = p.Kill() // it may have ended meanwhile
	}
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended, for any reason.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Killed reports whether Kill was called. It is true before the process ends.
func (p *Process) Killed() bool { return p.killed.Load() }

// Terminating reports whether Terminate was called. It is true before the process ends.
func (p *Process) Terminating() bool { return p.terminating.Load() }

// waitForOutput waits until the output matches a pattern, and returns the submatches.
func (p *Process) waitForOutput(ctx context.Context, pattern *regexp.Regexp) ([]string, error) {
	var groups []string
	err := Until(ctx, func() error {
		text, err := os.ReadFile(p.Log)
		if err != nil {
			return err
		}
		if groups = pattern.FindStringSubmatch(string(text)); groups != nil {
			return nil
		}
		if p.Ended() {
			return permanentError{
				fmt.Errorf("%s ended with %v and has not printed %q:\n%s", p.Name, p.status, pattern, text),
			}
		}
		return fmt.Errorf("%s has not printed %q", p.Name, pattern)
	})
	return groups, err
}

// Tail returns the end of the log, at most the given number of lines.
func (p *Process) Tail(lines int) string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// permanentError ends Until.
type permanentError struct{ error }

// Until calls try until it succeeds or ctx ends. It then returns the last error that was not caused
// by the end of ctx.
func Until(ctx context.Context, try func() error) error {
	began := time.Now()
	var wrong error
	for {
		err := try()
		if wrong == nil || ctx.Err() == nil {
			wrong = err
		}
		if last := (permanentError{}); err == nil {
			return nil
		} else if errors.As(err, &last) {
			return last.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), wrong)
		case <-time.After(max(pollInterval, testkit.PollInterval(time.Since(began)))):
		}
	}
}
