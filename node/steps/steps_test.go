package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/node/steps"
)

var errBroken = errors.New("broken")

// list returns steps that record their starts and stops in ran. The step with index broken fails.
func list(ran *[]string, broken int) (all []steps.Step) {
	for i, name := range []string{"a", "b", "c", "d"} {
		all = append(all, steps.Step{
			Name: name,
			Start: func(context.Context) error {
				*ran = append(*ran, "+"+name)
				if i == broken {
					return errBroken
				}
				return nil
			},
			Stop: func() { *ran = append(*ran, "-"+name) },
		})
	}
	all[1].Stop = nil
	return all
}

// TestFailure checks that, if any step fails, the steps before it are stopped in reverse order, and
// that the log names the failed step.
func TestFailure(t *testing.T) {
	for broken, want := range []string{
		"+a", "+a +b -a", "+a +b +c -a", "+a +b +c +d -c -a",
	} {
		var ran []string
		log := &bytes.Buffer{}
		s, err := steps.Start(t.Context(), list(&ran, broken), zerolog.New(log))
		if s != nil || !errors.Is(err, errBroken) {
			t.Errorf("step %d: %v", broken, err)
		}
		if got := strings.Join(ran, " "); got != want {
			t.Errorf("step %d: %s, want %s", broken, got, want)
		}
		line := fmt.Sprintf(`"step":"%c","message":"start failed`, 'a'+broken)
		if !strings.Contains(log.String(), line) {
			t.Errorf("step %d: the log lacks %s: %s", broken, line, log)
		}
	}
}

// TestStop checks that Stop stops the steps in reverse order, and only once.
func TestStop(t *testing.T) {
	var ran []string
	s, err := steps.Start(t.Context(), list(&ran, -1), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop()
	if want := strings.Fields("+a +b +c +d -d -c -a"); !slices.Equal(ran, want) {
		t.Errorf("%v, want %v", ran, want)
	}
}

// TestBackground checks that the function that Background returns waits for f.
func TestBackground(t *testing.T) {
	var ended atomic.Bool
	stop := steps.Background(supervise.System, func(ctx context.Context) {
		<-ctx.Done()
		ended.Store(true)
	})
	if stop(); !ended.Load() {
		t.Error("stop has not waited")
	}
}

// TestAll checks that All calls its function for each number, concurrently.
func TestAll(t *testing.T) {
	var calls, sum atomic.Int64
	together := make(chan struct{})
	steps.All(supervise.System, 4, func(i int) {
		sum.Add(int64(i))
		if calls.Add(1) == 4 {
			close(together)
		}
		<-together
	})
	if calls.Load() != 4 || sum.Load() != 6 {
		t.Errorf("%d calls, sum %d", calls.Load(), sum.Load())
	}
}
