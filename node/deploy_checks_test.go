package node_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// copyWithJSON copies a model folder and changes one of its JSON files.
func copyWithJSON(t *testing.T, from, file string, change func(map[string]any)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	change(fields)
	if b, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// deployError deploys a folder over NATS and returns the error.
func deployError(t *testing.T, conn *nats.Conn, path string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"deployment": map[string]any{"name": "other", "path": path}})
	if err != nil {
		t.Fatal(err)
	}
	return request(t, conn, "troupe.v1.models.deploy", string(body)).Header.Get("Nats-Service-Error")
}

// TestDeployChecksTokenizer checks that a deploy is refused if the tokenizer does not fit the
// model.
func TestDeployChecksTokenizer(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	vocab := func(change func(model map[string]any)) func(map[string]any) {
		return func(f map[string]any) { change(f["model"].(map[string]any)) }
	}
	missing := copyWithJSON(t, testkit.Model(), "config.json", func(map[string]any) {})
	if err := os.Remove(filepath.Join(missing, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"missing": {missing, "no tokenizer.json"},
		"unigram": {copyWithJSON(t, testkit.Model(), "tokenizer.json", vocab(func(m map[string]any) {
			m["type"], m["vocab"] = "Unigram", []any{[]any{"<unk>", 0.0}}
			delete(m, "merges")
		})), "unsupported model.type; supported: BPE"},
		"larger": {copyWithJSON(t, testkit.Model(), "tokenizer.json", vocab(func(m map[string]any) {
			m["vocab"].(map[string]any)["beyond"] = 1024
		})), "the tokenizer has 1025 tokens but the model 1024"},
	} {
		refused := deployError(t, conn, tc.path)
		if !strings.Contains(refused, tc.want) {
			t.Errorf("%s: %q, want %q", name, refused, tc.want)
		}
	}
	if refused := deployError(t, conn, testkit.Model()); refused != "" {
		t.Errorf("the shipped model: %s", refused)
	}
}

// TestRegisterChecksRank checks that the registration of an adapter beyond the model's rank is
// refused.
func TestRegisterChecksRank(t *testing.T) {
	n := start(t, func(cfg *node.Config) { cfg.Deployments[0].MaxAdapterRank = new(uint32(2)) })
	_, err := n.Backend().RegisterAdapter(t.Context(), &messages.RegisterAdapterRequest{Adapter: &messages.AdapterSpec{
		Name: "psalms", Model: "kjv", Path: filepath.Join(testkit.Model(), "adapters", "psalms"),
	}})
	if err == nil || !strings.Contains(err.Error(),
		"and model kjv takes at most 2; deploy the model with a higher max_adapter_rank") {
		t.Error(err)
	}
}
