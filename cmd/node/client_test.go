package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"troupe/messages"
)

// TestRequestRetriesSilentNode checks that a command retries if a hung node swallows its request,
// and reports an error if all nodes hang.
func TestRequestRetriesSilentNode(t *testing.T) {
	_, conn := natsAt(t, "")
	request := func(ctx context.Context) (*messages.KvStatsResponse, error) {
		answer := &messages.KvStatsResponse{}
		return answer, clusterClient{
			NATS: "nats://here",
		}.request(ctx, conn, "kv.stats", &messages.KvStatsRequest{}, answer)
	}
	if _, err := request(t.Context()); err == nil || !strings.Contains(err.Error(), "is a NATS server without nodes") {
		t.Errorf("with no node: %v", err)
	}
	var attempts, hung atomic.Int32
	hung.Store(1)
	if _, err := conn.Subscribe("troupe.v1.kv.stats", func(m *nats.Msg) {
		if attempts.Add(1) > hung.Load() {
			_ = m.Respond([]byte(`{"nodes": [{"node": "a"}]}`))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := request(t.Context()); err != nil || len(got.GetNodes()) != 1 || attempts.Load() != 2 {
		t.Errorf("%v, %v, %d attempts", got, err, attempts.Load())
	}
	hung.Store(1 << 20)
	ctx, end := context.WithTimeout(t.Context(), attemptTimeout/20)
	defer end()
	if _, err := request(ctx); err == nil ||
		!strings.Contains(err.Error(), "the nodes at nats://here do not answer") {
		t.Errorf("with hung nodes: %v", err)
	}
}
