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

// TestRefusalHasFigures checks that an error of a command has the sizes and names of a refusal.
func TestRefusalHasFigures(t *testing.T) {
	_, conn := natsAt(t, "")
	for body, want := range map[string]string{
		`{"memory": {"model": "m", "bytes": "3145728", "total": "4194304", "evictable": "1048576"}}`: "refused: no " +
			"(m needs 3 MiB; of 4 MiB, 0 B are used, 0 B reserved, 1 MiB evictable)",
		`{"not_loaded": {"model": "m", "device": "a/gpu-0"}}`: "refused: no (not loaded: m on a/gpu-0)",
		`{"reason": "REASON_INTERNAL"}`:                       "refused: no",
		`of another version`:                                  "refused: no",
	} {
		sub, err := conn.Subscribe("troupe.v1.gpus.evict", func(m *nats.Msg) {
			_ = m.RespondMsg(&nats.Msg{Data: []byte(body), Header: nats.Header{"Nats-Service-Error": {"no"}}})
		})
		if err != nil {
			t.Fatal(err)
		}
		err = clusterClient{NATS: "nats://here"}.request(t.Context(), conn, "gpus.evict",
			&messages.EvictWeightsRequest{}, &messages.EvictWeightsResponse{})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}
