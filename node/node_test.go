package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// start starts a node with two software GPUs that serves the shipped model.
func start(t *testing.T, change func(*node.Config)) *node.Node {
	t.Helper()
	cfg := node.Config{
		Name: "test", DataDir: t.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Version: "0.0.0",
		Devices:     []host.Config{{Index: 0, MemoryBytes: 256 << 20}, {Index: 1, MemoryBytes: 256 << 20}},
		Deployments: []*messages.DeploymentSpec{{Name: "kjv", Path: testkit.Model()}},
		Log:         zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel),
	}
	if change != nil {
		change(&cfg)
	}
	n, err := node.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}

// post sends a JSON body and returns status and body of the answer.
func post(t testing.TB, n *node.Node, path string, body any) (int, []byte) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(fmt.Sprintf("http://%s%s", n.HTTPAddr(), path), "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, got
}

type completion struct {
	Choices []struct {
		Text         string
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func goldens(t testing.TB) []testkit.Golden {
	return testkit.JSONLines[testkit.Golden](t, filepath.Join(testkit.Model(), "golden_greedy.jsonl"))
}

func TestGoldens(t *testing.T) {
	n := start(t, nil)
	for _, g := range goldens(t) {
		status, body := post(t, n, "/v1/completions", map[string]any{
			"model": "kjv", "prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0,
		})
		var c completion
		if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		if c.Choices[0].Text != g.Text {
			t.Errorf("%q: got %q, want %q", g.Prompt, c.Choices[0].Text, g.Text)
		}
	}
}
