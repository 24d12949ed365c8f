package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"troupe/messages"
)

// TestRequestRetriesSilentNode: a node that hangs swallows what NATS gives to it; commands ask again, and say so where that is no use.
func TestRequestRetriesSilentNode(t *testing.T) {
	_, conn := natsAt(t, "")
	ask := func(ctx context.Context) (*messages.KvStatsResponse, error) {
		answer := &messages.KvStatsResponse{}
		return answer, clusterClient{NATS: "nats://here"}.request(ctx, conn, "kv.stats", &messages.KvStatsRequest{}, answer)
	}
	if _, err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), "no node answers there") {
		t.Errorf("with no node: %v", err)
	}
	var asked, hangs atomic.Int32
	hangs.Store(1)
	if _, err := conn.Subscribe("troupe.v1.kv.stats", func(m *nats.Msg) {
		if asked.Add(1) > hangs.Load() {
			_ = m.Respond([]byte(`{"nodes": [{"node": "a"}]}`))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t.Context()); err != nil || len(got.GetNodes()) != 1 || asked.Load() != 2 {
		t.Errorf("%v, %v, asked %d times", got, err, asked.Load())
	}
	hangs.Store(1 << 20)
	ctx, end := context.WithTimeout(t.Context(), attemptTimeout/20)
	defer end()
	if _, err := ask(ctx); err == nil || !strings.Contains(err.Error(), "no node at nats://here answers, though there are some") {
		t.Errorf("where all hang: %v", err)
	}
}
