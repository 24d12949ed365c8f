package troupe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/cluster/troupe"
	"troupe/gateway/apikey"
)

// tenantKeys are API keys: dave is of carol's tenant, and erin and frank share with everybody who wants to share.
const tenantKeys = `
  - {name: alice, key: alice-secret-0001}
  - {name: bob, key: bob-secret-000001}
  - {name: carol, key: carol-secret-0001, tenant: acme}
  - {name: dave, key: dave-secret-00001, tenant: acme}
  - {name: erin, key: erin-secret-00001, tenant: shared}
  - {name: frank, key: frank-secret-0001, tenant: shared}
`

// keyed gives a node API keys from a file that write changes.
func keyed(t *testing.T) (change func(*troupe.Config), write func(keys string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write = func(keys string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte("keys:\n"+keys), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(tenantKeys)
	return func(c *troupe.Config) {
		keys, err := apikey.Open(path, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		c.Keys = keys
	}, write
}

// cachedFor asks for a few words with an API key. It returns the text, and how many tokens of the prompt were found in the cache.
func cachedFor(t *testing.T, n *troupe.Node, secret, prompt string, fields ...string) (text string, cached int) {
	t.Helper()
	ask := map[string]any{"model": "kjv", "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true}
	for i := 0; i < len(fields); i += 2 {
		ask[fields[i]] = fields[i+1]
	}
	body, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.HTTPAddr()+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var c completion
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", secret, res.StatusCode, err)
	}
	return c.Choices[0].Text, c.Usage.Details.Cached
}

// cachedOverNATS does the same over NATS, where no account is known.
func cachedOverNATS(t *testing.T, n *troupe.Node, prompt string, more string) int {
	t.Helper()
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":8,"temperature":0,"ignore_eos":true,"stream":false%s}`, prompt, more)
	var c completion
	if m := request(t, connect(t, n), "troupe.v1.infer.kjv", body); json.Unmarshal(m.Data, &c) != nil || len(c.Choices) != 1 {
		t.Fatalf("%v %s", m.Header, m.Data)
	}
	return c.Usage.Details.Cached
}

// TestTenantsShareNoPrefix: one key's prompt is never found in the cache by another one, unless both name the same tenant.
func TestTenantsShareNoPrefix(t *testing.T) {
	keys, write := keyed(t)
	n := start(t, keys)
	prompt := strings.Repeat(system, 3)
	var first string
	for _, step := range []struct {
		secret string
		found  bool
		salt   string
	}{
		{"alice-secret-0001", false, ""}, {"alice-secret-0001", true, ""},
		{"bob-secret-000001", false, ""}, {"bob-secret-000001", true, ""},
		{"carol-secret-0001", false, ""}, {"dave-secret-00001", true, ""},
		{"erin-secret-00001", false, ""}, {"frank-secret-0001", true, ""},
		{"alice-secret-0001", false, "mine"}, {"alice-secret-0001", true, "mine"}, {"alice-secret-0001", true, ""},
		{"bob-secret-000001", false, "mine"}, {"alice-secret-0001", false, "mine2"},
		{"dave-secret-00001", false, "ours"}, {"carol-secret-0001", true, "ours"},
		{"erin-secret-00001", false, "acme"}, {"frank-secret-0001", true, "acme"},
	} {
		var fields []string
		if step.salt != "" {
			fields = []string{"cache_salt", step.salt}
		}
		text, cached := cachedFor(t, n, step.secret, prompt, fields...)
		if first == "" {
			first = text
		}
		if (cached > 0) != step.found || step.found && cached < 64 || text != first {
			t.Errorf("%s with cache_salt %q: %d tokens cached, want some: %t; text %q, want %q", step.secret, step.salt, cached, step.found, text, first)
		}
	}
	// Over NATS without accounts, senders are not told apart: they are of the shared space.
	if cached := cachedOverNATS(t, n, prompt, ""); cached < 64 {
		t.Errorf("over NATS %d tokens of the shared space are cached", cached)
	}
	if cached := cachedOverNATS(t, n, prompt, `,"cache_salt":"nats"`); cached != 0 {
		t.Errorf("over NATS with a cache_salt of its own: %d tokens cached", cached)
	}
	if cached := cachedOverNATS(t, n, prompt, `,"cache_salt":"nats"`); cached < 64 {
		t.Errorf("over NATS with the same cache_salt again: %d tokens cached", cached)
	}
	// A key is rotated: the name stays, or another one is given to the tenant.
	write(`
  - {name: alice, key: alice-secret-0002}
  - {name: carol-2026, key: carol-secret-0002, tenant: acme}
  - {name: alice-2, key: alice-secret-0003}
`)
	for secret, found := range map[string]bool{"alice-secret-0002": true, "carol-secret-0002": true, "alice-secret-0003": false} {
		if _, cached := cachedFor(t, n, secret, prompt); (cached > 0) != found {
			t.Errorf("after the rotation %s: %d tokens cached, want some: %t", secret, cached, found)
		}
	}
}
