package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/node"
)

const (
	annKey = "sk-ann-0123456789"
	kimKey = "sk-kim-0123456789"
)

// withKeys gives a node a keys file with the given limits for ann.
func withKeys(t *testing.T, limits string) func(int, *node.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.yaml")
	lines := fmt.Sprintf("keys:\n- {name: ann, key: %s, limits: {%s}, weight: 2, tenant: red}\n"+
		"- {name: kim, key: %s, max_priority: standard}\n", annKey, limits, kimKey)
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(_ int, c *node.Config) {
		keys, err := apikey.Open(file, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		c.Keys = keys
	}
}

// completeWithKey sends a completion with a key.
func completeWithKey(t *testing.T, n *node.Node, key string, body map[string]any) (*http.Response, string) {
	t.Helper()
	return completeWithKeyUntil(t.Context(), t, n, key, body)
}

// completeWithKeyUntil is like completeWithKey. The client leaves when ctx ends.
func completeWithKeyUntil(ctx context.Context, t *testing.T, n *node.Node, key string,
	body map[string]any) (*http.Response, string) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.HTTPAddr()+"/v1/completions",
		bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if ctx.Err() != nil {
		return &http.Response{}, ""
	}
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res, string(text)
}

// TestLimitsAreClusterWide checks that the usage of a key at one node counts at the others, and
// that keys.list shows it without secrets.
func TestLimitsAreClusterWide(t *testing.T) {
	nodes := startCluster(t, 2, withKeys(t, "requests_per_minute: 2, tokens_per_minute: 1000"))
	deploy(t, nodes[0], kjvSpec(1), nodes[1])
	small := map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 2, "ignore_eos": true}
	for range 2 {
		if res, text := completeWithKey(t, nodes[0], annKey, small); res.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
	}
	used := func() *messages.KeyStatus {
		keys, err := nodes[1].Backend().Keys(t.Context())
		if err != nil || len(keys) != 2 {
			t.Fatal(keys, err)
		}
		return keys[0]
	}
	waitFor(t, "the other node to count both requests and their ends", func() bool {
		u := used().GetUsage()
		return u.GetRequests() == 2 && u.GetRequestsInFlight() == 0 && u.GetOutputTokens() == 4
	})
	res, text := completeWithKey(t, nodes[1], annKey, small)
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" ||
		res.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("at the other node: %d %v %s", res.StatusCode, res.Header, text)
	}
	if res, text := completeWithKey(t, nodes[1], kimKey, small); res.StatusCode != http.StatusOK {
		t.Errorf("another key: %d %s", res.StatusCode, text)
	}
	conn, err := nats.Connect(nodes[0].NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	list := answer[messages.ListKeysResponse](t, conn, "troupe.v1.keys.list", "").GetKeys()
	if len(list) != 2 || list[0].GetName() != "ann" || list[0].GetTenant() != "red" || list[0].GetWeight() != 2 ||
		list[0].GetUsage().
			GetLimits().
			GetRequestsPerMinute() !=
			2 || list[1].GetMaxPriority() != messages.PriorityClass_PRIORITY_CLASS_STANDARD {
		t.Errorf("keys.list: %v", list)
	}
	if shown := fmt.Sprint(list); strings.Contains(shown, annKey) || strings.Contains(shown, kimKey) {
		t.Error("keys.list shows keys")
	}
}

// TestFloodDoesNotStarveOtherKeys checks that a request is served while the requests of another key
// fill batch and queue.
func TestFloodDoesNotStarveOtherKeys(t *testing.T) {
	n, gate := startGated(t, 4, func(c *node.Config) {
		withKeys(t, "")(0, c)
		withLimits(8, 64, 0)(c)
	})
	var flood sync.WaitGroup
	var done atomic.Int32
	ctx, leave := context.WithCancel(t.Context())
	for range 8 {
		flood.Go(func() {
			completeWithKeyUntil(ctx, t, n, annKey, map[string]any{
				"model":       "kjv",
				"prompt":      "In",
				"max_tokens":  300,
				"ignore_eos":  true,
				"n":           8,
				"temperature": 1,
			})
			done.Add(1)
		})
	}
	defer flood.Wait()
	defer leave() // the rest of the flood checks nothing
	gate.await(t)
	queued := func(sequences uint32) func() bool {
		return func() bool { r := replica(t, n, "kjv"); return r.GetRunning()+r.GetWaiting() == sequences }
	}
	waitFor(t, "the flood to fill batch and queue", queued(64))
	other := make(chan struct{})
	go func() {
		defer close(other)
		small := map[string]any{"model": "kjv", "prompt": "And God said", "max_tokens": 4}
		if res, text := completeWithKey(t, n, kimKey, small); res.StatusCode != http.StatusOK {
			t.Errorf("%d %s", res.StatusCode, text)
		}
	}()
	waitFor(t, "the other request to arrive", queued(65))
	gate.open()
	<-other
	if n := done.Load(); n > 0 {
		t.Errorf("%d of 8 requests of the flood were served before the other", n)
	}
}
