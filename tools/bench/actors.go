package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
	"troupe/observe/tree"
)

func treeCost() (section, error) {
	s := section{
		title: "The supervision tree",
		how: "A million tells from one goroutine to an idle actor, alternating between a registered and an " +
			"unregistered actor.",
	}
	sys := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	done := make(chan struct{})
	type last struct{}
	props := func() *actor.Props {
		return actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*last); ok {
				done <- struct{}{}
			}
		})
	}
	plain, known := sys.Root.Spawn(props()), sys.Root.Spawn(tree.New(nil).Instrument("bench", props()))
	const n = 1_000_000
	tell := func(pid *actor.PID) func() error {
		msg := &messages.GetGpu{}
		return func() error {
			for range n {
				sys.Root.Send(pid, msg)
			}
			sys.Root.Send(pid, &last{})
			<-done
			return nil
		}
	}
	with, without, ratio, err := paired(21, tell(known), tell(plain))
	s.rows = []row{{"cost of a tell, over an unregistered actor", fmt.Sprintf("%.3f (%.0f ns against %.0f ns)", ratio,
		float64(with.Nanoseconds())/n, float64(without.Nanoseconds())/n), "1.05 or less", yesNo(ratio <= 1.05)}}
	return s, err
}

// sink is a response writer that discards its stream.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}
func (s sink) Flush()                      {}

func sessionMemory() (section, error) {
	s := section{
		title: "Memory of a session",
		how: "Heap and stacks added by 500 requests, each with its goroutine, call, session and sequence, without " +
			"a network connection.",
	}
	for _, c := range []struct {
		what      string
		sequences uint32
	}{{"waiting in the queue", 1}, {"streaming", 512}} {
		bytes, err := perSession(c.sequences)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, row{c.what, fmt.Sprintf("%.1f KiB", float64(bytes)/1024), "", ""})
	}
	return s, nil
}

// perSession measures sessions on a replica that runs the given number of sequences at once.
func perSession(sequences uint32) (int64, error) {
	const n = 500
	node, stop, err := startNode(func(d *messages.DeploymentSpec) {
		d.MaxSequences, d.MaxWaiting, d.StepTokens = new(sequences), new(uint32(2*n)), new(uint32(4096))
	})
	if err != nil {
		return 0, err
	}
	defer stop()
	ctx, leave := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer leave()
	before := memoryInUse()
	for i := range n {
		body := fmt.Sprintf(
			`{"model":"kjv","prompt":[0,76,113,%d],"max_tokens":900,"ignore_eos":true,"stream":true}`, i+3,
		)
		wait.Go(func() {
			defer func() { _ = recover() }() // a stream that is cut ends with http.ErrAbortHandler
			req, err := http.NewRequestWithContext(
				ctx, http.MethodPost, "/v1/completions", io.NopCloser(bytes.NewReader([]byte(body))),
			)
			if err == nil {
				node.Handler().ServeHTTP(sink{http.Header{}}, req)
			}
		})
	}
	for {
		d, err := node.Backend().Deployment(ctx, "kjv")
		if err != nil {
			return 0, err
		}
		r := d.GetReplicas()
		if len(r) > 0 && r[0].GetRunning() >= min(sequences, n) && r[0].GetRunning()+r[0].GetWaiting() >= n {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return (memoryInUse() - before) / n, nil
}

func memoryInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
