package node_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/control"
	"troupe/core/route"
	"troupe/node"
	observe "troupe/observe/record"
	"troupe/recording"
)

// recordNode records the cluster of a node. The returned function ends the recording and returns it.
func recordNode(t *testing.T, n *node.Node) func() *recording.Recording {
	t.Helper()
	conn, err := nats.Connect(n.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	var file bytes.Buffer
	w := recording.NewWriter(&file)
	ctx, end := context.WithCancel(t.Context())
	begun, done := make(chan struct{}), make(chan error)
	go func() {
		_, err := (&observe.Recorder{
			Ask: func(ctx context.Context, endpoint string, request, answer proto.Message) error {
				body, err := control.Encode(request)
				if err != nil {
					return err
				}
				reply, err := conn.RequestWithContext(ctx, "troupe.v1."+endpoint, body)
				if err != nil {
					return err
				}
				return protojson.Unmarshal(reply.Data, answer)
			},
			Out: w, Progress: func() func(observe.Statistics) {
				once := sync.OnceFunc(func() { close(begun) })
				return func(observe.Statistics) { once() }
			}(),
		}).Run(ctx)
		done <- err
	}()
	select {
	case <-begun:
	case err := <-done:
		t.Fatal(err)
	}
	return func() *recording.Recording {
		end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := recording.Read(&file, "test")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// TestRecordedDecisionsAreTheSame records a node with two replicas, one of which has the blocks of the prompt. Its
// policy decides the same again, and another one does not. There is no text in the recording.
func TestRecordedDecisionsAreTheSame(t *testing.T) {
	n, g := startGated(t, 1<<40, withLimits(1, 100, 0), func(c *node.Config) {
		c.Deployments[0].Replicas = new(uint32(2))
	})
	waitFor(t, "two replicas", func() bool {
		d, err := n.Backend().Deployment(t.Context(), "kjv")
		return err == nil && len(d.GetReplicas()) == 2
	})
	end := recordNode(t, n)
	prompt := map[string]any{"model": "kjv", "prompt": strings.Repeat("And God said, Let there be light. ", 12),
		"max_tokens": 4, "ignore_eos": true, "user": "anna"}
	waitFor(t, "the blocks to be known", func() bool { return complete(t, n, prompt).Usage.Details.Cached > 0 })
	const more = 6
	g.free.Store(0)
	var wait sync.WaitGroup
	for range more {
		wait.Go(func() { post(t, n, "/v1/completions", prompt) })
	}
	waitFor(t, "the requests to be routed", func() bool {
		d, err := n.Backend().Deployment(t.Context(), "kjv")
		all := 0
		for _, r := range d.GetReplicas() {
			all += int(r.GetRunning() + r.GetWaiting())
		}
		return err == nil && all == more
	})
	g.open()
	wait.Wait()
	tooLong := map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 9999}
	if status, _ := post(t, n, "/v1/completions", tooLong); status != 400 {
		t.Errorf("status %d", status)
	}
	r := end()

	if different := r.CheckDecisions(route.DefaultWeights); len(different) > 0 {
		t.Errorf("%d of %d decisions differ: %v", len(different), len(r.Decisions), different[0])
	}
	other := route.DefaultWeights
	other.DefaultTokens, other.ShareFactor = -10_000, 100 // prefers replicas that are full
	if different := r.CheckDecisions(other); len(different) == 0 {
		t.Error("another policy decides the same")
	}
	decided := make(map[string]string)
	for _, d := range r.Decisions {
		decided[d.ID] = d.Choice
	}
	refused, cached := 0, 0
	first := r.Requests[0]
	for _, q := range r.Requests {
		if q.End == recording.Refused {
			refused++
			continue
		}
		cached = max(cached, q.Cached)
		if decided[q.ID] == "" || q.Output != 4 || q.TTFT == nil || q.TPOT == nil || q.Client != first.Client ||
			q.Blocks[0] != first.Blocks[0] || len(q.Blocks) != (q.Prompt+q.Output)/16 || q.Took < *q.TTFT {
			t.Errorf("%+v", q)
		}
	}
	if len(r.Requests) < more+3 || refused != 1 || cached == 0 || len(r.Lost) > 0 || !r.Complete ||
		r.End.Open != 0 {
		t.Errorf("%d requests, %d refused, cached %d, lost %v, end %+v", len(r.Requests), refused, cached, r.Lost,
			r.End)
	}
	s := r.Snapshot
	if len(s.Nodes) != 1 || len(s.Nodes[0].Devices) != 2 || len(s.Replicas) != 2 || s.Replicas[0].KVBlockBytes == 0 ||
		len(s.Deployments) != 1 || s.Deployments[0].ContextTokens != 1024 || s.Deployments[0].WeightBytes == 0 {
		t.Errorf("%+v", s)
	}
}
