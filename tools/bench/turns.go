package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	weights "troupe/core/residency"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/node"
)

const (
	turnStreams = 8   // of each replica
	turnTokens  = 400 // of each stream
	turnRounds  = 9
	shareTime   = 20 * time.Second
)

// turns measures what it costs that two replicas of a device take turns, and how their shares of its time
// differ from their weights.
func turns() (section, error) {
	s := section{
		title: "Turns of two replicas of a device",
		how: fmt.Sprintf("Two deployments of the model on one device. %d streams of %d tokens from each at the same "+
			"time, which take turns, compared to the same streams of one after those of the other, each alone on the "+
			"device and without turns, alternating. The device is idle while no replica runs a step. Then streams "+
			"without end for %v, of equal weights and of weights 2 and 4: the device time of the first replica, over "+
			"that of both. All requests have class standard.", turnStreams, turnTokens, shareTime),
	}
	n, stop, err := turnNode(messages.PriorityClass_PRIORITY_CLASS_STANDARD)
	if err != nil {
		return s, err
	}
	defer stop()
	var idle, idleAlone []float64
	both := turnRun(n, &idle, func(ctx context.Context) error {
		return together(func() error { return batchOf(ctx, n, "kjv") },
			func() error { return batchOf(ctx, n, "other") })
	})
	alone := turnRun(n, &idleAlone, func(ctx context.Context) error {
		return errors.Join(batchOf(ctx, n, "kjv"), batchOf(ctx, n, "other"))
	})
	if err := errors.Join(both(), alone()); err != nil { // warm up
		return s, err
	}
	idle, idleAlone = nil, nil
	with, without, ratio, err := paired(turnRounds, both, alone)
	if err != nil {
		return s, err
	}
	s.rows = []row{
		{"time per step, over that without turns", fmt.Sprintf("%.3f (%s against %s for %d steps)", ratio, round(with),
			round(without), 2*turnTokens), "1.02 or less", yesNo(ratio <= 1.02)},
		{"part of the time in which the device is idle", fmt.Sprintf("%.1f %% (%.1f %% without turns)",
			100*median(idle), 100*median(idleAlone)), "", ""},
	}
	bare, err := alternate()
	if err != nil {
		return s, err
	}
	s.rows = append(s.rows, row{"for scale: two engines that alternate, over one after the other, without a node",
		fmt.Sprintf("%.3f", bare), "", ""})
	for _, c := range []struct {
		other messages.PriorityClass
		want  float64
	}{
		{messages.PriorityClass_PRIORITY_CLASS_STANDARD, 1. / 2},
		{messages.PriorityClass_PRIORITY_CLASS_INTERACTIVE, 1. / 3},
	} {
		share, granted, err := shareOf(c.other)
		if err != nil {
			return s, err
		}
		off := max(share-c.want, c.want-share)
		s.rows = append(s.rows, row{fmt.Sprintf("share of the device time, of %.1f %% by weight", 100*c.want),
			fmt.Sprintf("%.1f %% (%.0f turns)", 100*share, granted), "within 2 %", yesNo(off <= 0.02*c.want)})
	}
	return s, nil
}

// turnNode starts a node with two deployments of the model on one device. The priority of the second one
// determines its weight.
func turnNode(other messages.PriorityClass) (*node.Node, func(), error) {
	return nodeWith(func(c *node.Config) {
		standard := messages.PriorityClass_PRIORITY_CLASS_STANDARD
		c.Deployments = []*messages.DeploymentSpec{{Name: "kjv", Path: model, DefaultClass: &standard},
			{Name: "other", Path: model, DefaultClass: &other}}
		for _, d := range c.Deployments {
			d.MaxSequences, d.KvBlocks = new(uint32(turnStreams)), new(uint32(1024))
		}
	})
}

// turnRun returns a function that runs work and appends the part of the time in which the device is idle.
func turnRun(n *node.Node, idle *[]float64, work func(context.Context) error) func() error {
	return func() error {
		before, _, err := stepTimes(n)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := work(context.Background()); err != nil {
			return err
		}
		took := time.Since(began)
		after, _, err := stepTimes(n)
		*idle = append(*idle, 1-(after["kjv-0"]+after["other-0"]-before["kjv-0"]-before["other-0"])/took.Seconds())
		return err
	}
}

// stepTimes returns the time of all steps in seconds, by replica, and the number of turns, from the
// metrics of a node.
func stepTimes(n *node.Node) (seconds map[string]float64, granted float64, err error) {
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	seconds = make(map[string]float64)
	for line := range strings.Lines(answer.Body.String()) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.ParseFloat(text, 64)
		metric, labels, _ := strings.Cut(name, "{")
		switch {
		case err != nil:
		case metric == "troupe_turns_granted_total":
			granted += value
		case metric == "troupe_turns_step_seconds_total":
			_, replica, _ := strings.Cut(labels, `replica="`)
			seconds[strings.TrimSuffix(replica, `"}`)] = value
		}
	}
	if len(seconds) != 2 {
		return nil, 0, fmt.Errorf("%d replicas have metrics, want 2: %d", len(seconds), answer.Code)
	}
	return seconds, granted, nil
}

func together(all ...func() error) error {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, f := range all {
		wait.Go(func() { errs[i] = f() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// batchOf runs a batch of streams of a deployment.
func batchOf(ctx context.Context, n *node.Node, name string) error {
	all := make([]func() error, turnStreams)
	for i := range all {
		all[i] = func() error { return stream(ctx, n, name, i) }
	}
	return together(all...)
}

func stream(ctx context.Context, n *node.Node, name string, i int) error {
	body := fmt.Sprintf(`{"model":%q,"prompt":[0,76,113,%d],"max_tokens":%d,"ignore_eos":true,"stream":true,`+
		`"priority":"standard"}`, name, i+3, turnTokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions",
		io.NopCloser(bytes.NewReader([]byte(body))))
	if err != nil {
		return err
	}
	func() {
		defer func() { _ = recover() }() // a stream that is cut ends with http.ErrAbortHandler
		n.Handler().ServeHTTP(sink{http.Header{}}, req)
	}()
	return nil
}

// alternate returns the time of steps of two engines with the same weights, which alternate, over that
// of the same steps of one engine after those of the other.
func alternate() (float64, error) {
	d, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		return 0, err
	}
	h, ctx := residency.NewStore(d, llama.Loader{}), context.Background()
	if _, err := h.LoadWeights(ctx, 1, weights.Source{Path: model}, ""); err != nil {
		return 0, err
	}
	var engines []engine.Engine
	for _, lease := range []string{"a", "b"} {
		spec := engine.LoadSpec{Lease: lease, Path: model, BlockTokens: 16, KVBlocks: 1024,
			Limits: engine.Limits{StepTokens: 512, MaxSequences: turnStreams}}
		if _, err := h.Lease(spec, 1, lease); err != nil {
			return 0, err
		}
		e, err := h.Open(lease)
		if err != nil {
			return 0, err
		}
		defer e.Close()
		engines = append(engines, e)
	}
	run := func(order func(step int) engine.Engine) func() error {
		return func() error {
			for i := range 2 * turnTokens {
				var batch []engine.Sequence
				for j := range turnStreams {
					batch = append(batch, sequence(j, i%turnTokens, 5))
				}
				if _, err := order(i).Step(ctx, batch); err != nil {
					return err
				}
			}
			return nil
		}
	}
	_, _, ratio, err := paired(turnRounds, run(func(i int) engine.Engine { return engines[i%2] }),
		run(func(i int) engine.Engine { return engines[i/turnTokens] }))
	return ratio, err
}

// shareOf returns the share of the first of two deployments in the device time, and the number of turns.
func shareOf(other messages.PriorityClass) (share, granted float64, err error) {
	n, stop, err := turnNode(other)
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	ctx, end := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	for _, name := range []string{"kjv", "other"} {
		for i := range turnStreams {
			wait.Go(func() {
				for ctx.Err() == nil {
					_ = stream(ctx, n, name, i) // the last one is cut
				}
			})
		}
	}
	time.Sleep(3 * time.Second) // prefills, and open turns
	before, first, err := stepTimes(n)
	time.Sleep(shareTime)
	after, last, err2 := stepTimes(n)
	end()
	wait.Wait()
	mine, theirs := after["kjv-0"]-before["kjv-0"], after["other-0"]-before["other-0"]
	return mine / (mine + theirs), last - first, errors.Join(err, err2)
}
