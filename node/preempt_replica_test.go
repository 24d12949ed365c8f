package node_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
	"troupe/node"
)

// choices sends a request and returns the body of its answer without what differs between runs.
func choices(t *testing.T, n *node.Node, body map[string]any) string {
	status, raw := post(t, n, "/v1/completions", body)
	var c struct{ Choices json.RawMessage }
	if err := json.Unmarshal(raw, &c); err != nil || status != http.StatusOK {
		t.Errorf("%d %s", status, raw)
	}
	return string(c.Choices)
}

// busiest returns the name of the replica with the most sequences.
func busiest(t *testing.T, n *node.Node) string {
	d, err := n.Backend().Deployment(t.Context(), "kjv")
	if err != nil {
		t.Error(err)
	}
	load := func(r *messages.ReplicaStatus) uint32 { return r.GetRunning() + r.GetWaiting() }
	return slices.MaxFunc(d.GetReplicas(), func(a, b *messages.ReplicaStatus) int {
		return cmp.Compare(load(a), load(b))
	}).GetName()
}

// preemptBodies are plain streams, one of three choices, one with logprobs and two of adapters.
func preemptBodies() []map[string]any {
	body := func(more map[string]any) map[string]any {
		all := map[string]any{"model": "kjv", "prompt": "In the days of the judges there was", "max_tokens": 60,
			"temperature": 0.9, "seed": 3, "ignore_eos": true}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	return []map[string]any{
		body(nil), body(map[string]any{"n": 3, "seed": 9}), body(map[string]any{"logprobs": 2}),
		body(map[string]any{"model": "psalms"}), body(map[string]any{"model": "shout", "n": 2, "logprobs": 1}),
		body(map[string]any{"seed": 4}),
	}
}

// TestPreemptReplica checks that the streams of a preempted replica are exact, whether another
// replica takes them or they wait until one serves again.
func TestPreemptReplica(t *testing.T) {
	bodies := preemptBodies()
	want := make([]string, len(bodies))
	alone := start(t, nil)
	registerShipped(t, connect(t, alone))
	var wait sync.WaitGroup
	for i, b := range bodies {
		wait.Go(func() { want[i] = choices(t, alone, b) })
	}
	wait.Wait()
	for _, replicas := range []uint32{1, 2} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			n, gate := startGated(t, 12, withManualTiers(t), func(c *node.Config) {
				c.Deployments[0].Replicas = new(uint32(replicas))
			})
			conn := connect(t, n)
			registerShipped(t, conn)
			got := make([]chan string, len(bodies))
			for i, b := range bodies {
				got[i] = make(chan string, 1)
				go func() { got[i] <- choices(t, n, b) }()
			}
			gate.await(t)
			deadline := map[uint32]string{1: "0s", 2: "30s"}[replicas]
			done := make(chan *messages.PreemptReplicaResponse, 1)
			go func() {
				answer, err := conn.Request("troupe.v1.replicas.preempt",
					fmt.Appendf(nil, `{"name": %q, "deadline": %q, "force": true}`, busiest(t, n), deadline),
					time.Minute)
				res := &messages.PreemptReplicaResponse{}
				if err != nil {
					t.Error(err)
				} else if err := protojson.Unmarshal(answer.Data, res); err != nil {
					t.Errorf("%v: %s", err, answer.Data)
				}
				done <- res
			}()
			waitFor(t, "the preemption to begin", func() bool {
				d, err := n.Backend().Deployment(t.Context(), "kjv")
				return err == nil && len(d.GetPreemptions()) > 0
			})
			gate.open()
			p := (<-done).GetPreemption()
			t.Log(p)
			if p.GetPhase() != messages.PreemptionPhase_PREEMPTION_PHASE_ENDED {
				t.Errorf("%v", p)
			}
			if c := p.GetSequences(); replicas > 1 && (c.GetMigrated() == 0 || c.GetRequeued() > 0) {
				t.Errorf("nothing migrated, or something was requeued: %v", p)
			}
			if replicas == 1 {
				if c := p.GetSequences(); c.GetRequeued() == 0 || c.GetSaved() == 0 || p.GetBlocks() == 0 {
					t.Errorf("nothing was requeued and saved: %v", p)
				}
				if _, _, err := n.Scale(t.Context(), "kjv", 1); err != nil {
					t.Fatal(err)
				}
			}
			for i := range bodies {
				if text := <-got[i]; text != want[i] {
					t.Errorf("stream %d: got %s, want %s", i, text, want[i])
				}
			}
		})
	}
}
