package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// longPrompts returns requests with long prompts that share no prefix.
func longPrompts(n int) []cluster.Request {
	words := strings.Fields(
		"and the LORD said unto Moses in the wilderness of Sinai behold all these things which came to pass before",
	)
	all := make([]cluster.Request, n)
	for i := range all {
		prompt := fmt.Sprintf("%d men went up from the city. ", 2+i)
		for w := range 150 {
			prompt += words[(w*(i+3)+w/7)%len(words)] + " "
		}
		all[i] = cluster.Request{
			Model:       cluster.ModelName,
			Prompt:      prompt,
			Seed:        1 + i,
			Temperature: 0.7,
			MaxTokens:   12,
			IgnoreEOS:   true,
		}
	}
	return all
}

// waitForReplica waits until the model has one replica that meets a condition and can fetch KV
// blocks.
func waitForReplica(
	t *testing.T, c *cluster.Cluster, what string, condition func(*messages.ReplicaStatus) bool,
) (found *messages.ReplicaStatus) {
	t.Helper()
	until(t, what, func() bool {
		d, err := c.Model(t.Context(), cluster.ModelName)
		if err != nil || len(d.GetReplicas()) != 1 {
			return false
		}
		found = d.GetReplicas()[0]
		return found.GetKvOffloadReady() && condition(found)
	})
	return found
}

// requestRestore asks any node to restore a prompt's blocks. Restored blocks are always fetched,
// while those that a request needs may be computed if that is faster.
func requestRestore(t *testing.T, c *cluster.Cluster, r cluster.Request) {
	t.Helper()
	conn, err := c.NATS()
	if err != nil {
		t.Fatal(err)
	}
	body, err := protojson.Marshal(&messages.KvRestoreRequest{Model: r.Model, Prompt: r.Prompt})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest("troupe.v1.kv.restore", conn.NewInbox(), body); err != nil {
		t.Fatal(err)
	}
}

// TestStreamsSurviveKillDuringKVFetch kills the node that serves KV blocks while another node
// fetches them. Missing blocks must be computed, every answer must be exact, and nothing may be
// left of the transfers.
func TestStreamsSurviveKillDuringKVFetch(t *testing.T) {
	const some, all = 6, 22
	requests := longPrompts(all)
	answers, err := cluster.ReferenceAnswers(cluster.TestContext(t, 2*time.Minute), requests)
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Up(t, cluster.Config{Nodes: 2, NATS: cluster.External, Flags: []string{"--kv-dram", "128MiB"}})
	if err := c.WaitMembers(cluster.TestContext(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	spec := cluster.Spec(1)
	spec.MaxSequences = new(uint32(2)) // so that fetches follow each other
	if err := c.Deploy(cluster.TestContext(t, 2*time.Minute), spec); err != nil {
		t.Fatal(err)
	}
	lender := c.Node(waitForReplica(t, c, "a replica", func(*messages.ReplicaStatus) bool { return true }).GetNode())
	reader := c.LiveNodes(lender)
	ask := func(from, to, streams int) *cluster.LoadRun {
		l := cluster.Load{Gateways: reader, Requests: requests[from:to], Answers: answers[from:to], Streams: streams}
		return l.Start(cluster.TestContext(t, 2*time.Minute))
	}
	if err := ask(0, all, 4).Finish().Err(); err != nil {
		t.Fatal(err)
	}
	// The lender keeps the blocks in DRAM, and the replica moves to the reader.
	until(t, "the offload of all blocks", func() bool { // blocks that a timed-out call has moved stay moved
		return c.Call(t.Context(), "kv.offload", &messages.KvOffloadRequest{}, &messages.KvOffloadResponse{}) == nil
	})
	until(t, "the drain of the lender", func() bool {
		return c.Call(t.Context(), "nodes.drain", &messages.DrainNodeRequest{Name: lender.Name},
			&messages.DrainNodeResponse{}) == nil
	})
	waitForReplica(t, c, "the move of the replica",
		func(r *messages.ReplicaStatus) bool { return r.GetNode() == reader[0].Name })
	before := measureBaseline(t, c)
	next := 0
	// The reader learns of the lender's blocks with a delay.
	waitForReplica(t, c, "a fetch", func(r *messages.ReplicaStatus) bool {
		if r.GetKvFetched() == 0 {
			requestRestore(t, c, requests[next%some])
			next++
		}
		return r.GetKvFetched() > 0
	})
	// The lender is stopped first, so that a fetch is certain to be in flight when it is killed.
	if err := lender.Process().Stop(); err != nil {
		t.Fatal(err)
	}
	// All at once, before the lender is declared dead. Any of them may reach the lender.
	for _, r := range requests[some:] {
		requestRestore(t, c, r)
	}
	until(t, "a fetch in flight", func() bool { // asked of the node itself: a control call may reach the stopped one
		bytes, err := reader[0].Gauge(t.Context(), "troupe_kv_remote_in_flight_bytes")
		return err == nil && bytes > 0
	})
	more := ask(some, all, 8)
	if err := lender.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := more.Finish().Err(); err != nil {
		t.Error(err)
	}
	after := waitForReplica(t, c, "a failed fetch",
		func(r *messages.ReplicaStatus) bool { return r.GetKvFetchFailed() > 0 })
	t.Logf("fetched %d blocks, failed %d", after.GetKvFetched(), after.GetKvFetchFailed())
	checkClean(t, c, before)
}
