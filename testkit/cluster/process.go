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
)

// pollInterval is how often something is looked at until it is so.
const pollInterval = 10 * time.Millisecond

// Process is one life of a command, in a process group of its own.
type Process struct {
	Name string
	Log  string // the file with all that it has written

	cmd         *exec.Cmd
	done        chan struct{}
	status      error       // once done
	killed      atomic.Bool // told to end at once
	terminating atomic.Bool // told to end in order
}

// start starts a command on a host and keeps its output in a file.
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

// attend starts the process and waits for its end on one thread, which ends with it: Pdeathsig is about the parent's thread, and one that
// has entered a namespace must do nothing else afterwards.
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

// Kill ends the process at once, as a power failure does, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop freezes the process with all its threads: it keeps its memory and connections, and does nothing.
func (p *Process) Stop() error { return p.signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

// Terminate asks the process to end in order and waits until it has. Its exit status must be 0.
func (p *Process) Terminate(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("%s does not end after SIGTERM: %w", p.Name, ctx.Err())
	}
	if p.status != nil {
		return fmt.Errorf("%s ended with %w after SIGTERM", p.Name, p.status)
	}
	return nil
}

// Quit ends the process as Go's runtime does on SIGQUIT: with the stacks of all goroutines at the end of its log. It waits until that is written.
func (p *Process) Quit(ctx context.Context) error {
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end after SIGQUIT: %w", p.Name, ctx.Err())
	}
}

// signal sends a signal to the process group. A process that has ended already is an error: nothing was to end it.
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

// close makes sure that the process is gone.
func (p *Process) close() {
	if p != nil && !p.Ended() {
		_ = p.Kill() // it may end meanwhile
	}
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process is gone, for whatever reason.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Killed reports whether the process has been told to end with Kill. It is true before the process feels it.
func (p *Process) Killed() bool { return p.killed.Load() }

// Terminating reports whether the process has been told to end with Terminate, likewise.
func (p *Process) Terminating() bool { return p.terminating.Load() }

// says waits until the process has written what the pattern matches, and returns its groups.
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
			return permanentError{fmt.Errorf("%s ended with %v and has not said %q:\n%s", p.Name, p.status, pattern, text)}
		}
		return fmt.Errorf("%s has not said %q", p.Name, pattern)
	})
	return groups, err
}

// Tail is the end of the log, at most so many lines.
func (p *Process) Tail(lines int) string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// final is an error that no waiting mends.
type permanentError struct{ error }

// Until tries until it succeeds, or the context ends, and then says what was still wrong: what the last try found that the context did not end.
func Until(ctx context.Context, try func() error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
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
		case <-tick.C:
		}
	}
}
