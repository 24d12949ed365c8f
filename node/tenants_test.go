package node_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/node"
)

// tenantKeys are API keys: dave has carol's tenant, and erin and frank have the shared one.
const tenantKeys = `
  - {name: alice, key: alice-secret-0001, admin: true}
  - {name: bob, key: bob-secret-000001}
  - {name: carol, key: carol-secret-0001, tenant: acme}
  - {name: dave, key: dave-secret-00001, tenant: acme}
  - {name: erin, key: erin-secret-00001, tenant: shared}
  - {name: frank, key: frank-secret-0001, tenant: shared}
`

// withTenantKeys gives a node API keys from a file that write replaces.
func withTenantKeys(t *testing.T) (change func(*node.Config), write func(keys string)) {
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
	return func(c *node.Config) {
		keys, err := apikey.Open(path, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		c.Keys = keys
	}, write
}

// cachedFor generates a few tokens with an API key. It returns the text and the number of cached
// prompt tokens.
func cachedFor(t *testing.T, n *node.Node, secret, prompt string, fields ...string) (text string, cached int) {
	t.Helper()
	ask := map[string]any{"model": "kjv", "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true}
	for i := 0; i < len(fields); i += 2 {
		ask[fields[i]] = fields[i+1]
	}
	body, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + n.HTTPAddr() + "/v1/completions"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
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

// cachedOverNATS is like cachedFor, over NATS without accounts.
func cachedOverNATS(t *testing.T, n *node.Node, prompt string, more string) int {
	t.Helper()
	const ask = `{"prompt":%q,"max_tokens":8,"temperature":0,"ignore_eos":true,"stream":false%s}`
	body := fmt.Sprintf(ask, prompt, more)
	var c completion
	m := request(t, connect(t, n), "troupe.v1.infer.kjv", body)
	if json.Unmarshal(m.Data, &c) != nil || len(c.Choices) != 1 {
		t.Fatalf("%v %s", m.Header, m.Data)
	}
	return c.Usage.Details.Cached
}

// TestTenantsShareNoPrefix checks that prefixes cached for one key are not used for another key,
// unless both keys have the same tenant.
func TestTenantsShareNoPrefix(t *testing.T) {
	keys, write := withTenantKeys(t)
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
			t.Errorf("%s with cache_salt %q: %d tokens cached, want some: %t; text %q, want %q",
				step.secret, step.salt, cached, step.found, text, first)
		}
	}
	// Requests over NATS without accounts use the shared tenant.
	if cached := cachedOverNATS(t, n, prompt, ""); cached < 64 {
		t.Errorf("over NATS %d tokens of the shared tenant are cached", cached)
	}
	if cached := cachedOverNATS(t, n, prompt, `,"cache_salt":"nats"`); cached != 0 {
		t.Errorf("over NATS with a cache_salt of its own: %d tokens cached", cached)
	}
	if cached := cachedOverNATS(t, n, prompt, `,"cache_salt":"nats"`); cached < 64 {
		t.Errorf("over NATS with the same cache_salt again: %d tokens cached", cached)
	}
	// A key is rotated: it keeps its name, or the tenant gets a key with another name.
	write(`
  - {name: alice, key: alice-secret-0002}
  - {name: carol-2026, key: carol-secret-0002, tenant: acme}
  - {name: alice-2, key: alice-secret-0003}
`)
	for secret, found := range map[string]bool{
		"alice-secret-0002": true, "carol-secret-0002": true, "alice-secret-0003": false,
	} {
		if _, cached := cachedFor(t, n, secret, prompt); (cached > 0) != found {
			t.Errorf("after the rotation %s: %d tokens cached, want some: %t", secret, cached, found)
		}
	}
}

// TestTenantsAfterRestart checks that after a restart only the tenant that stored blocks on disk
// finds them, even if the store lost the cluster secret.
func TestTenantsAfterRestart(t *testing.T) {
	keys, _ := withTenantKeys(t)
	data, path := t.TempDir(), filepath.Join(t.TempDir(), "kv")
	prompt := strings.Repeat(system, 3)
	life := func(secrets ...string) (cached []int) {
		t.Run("life", func(t *testing.T) {
			n := start(t, withTiers(path, keys, func(c *node.Config) {
				c.DataDir = data
				c.Tiers.DRAMBytes, c.Tiers.Watermark = 0, 0.1
			}))
			waitFor(t, "the weights to be known", func() bool { return replica(t, n, "kjv").GetKvOffloadReady() })
			for _, secret := range secrets {
				_, c := cachedFor(t, n, secret, prompt)
				cached = append(cached, c)
			}
			moved := answer[messages.KvOffloadResponse](t, connect(t, n), "troupe.v1.kv.offload", "").GetMoved()
			if moved[0].GetDetail() != "" {
				t.Errorf("not all blocks are on the disk: %v", moved)
			}
		})
		return cached
	}
	if got := life("alice-secret-0001"); got[0] != 0 {
		t.Fatalf("%d tokens of a new prompt are cached", got[0])
	}
	if got := life("bob-secret-000001", "alice-secret-0001"); got[0] != 0 || got[1] < 64 {
		t.Errorf("after a restart bob finds %d tokens, and alice %d", got[0], got[1])
	}
	if err := os.RemoveAll(filepath.Join(data, "jetstream")); err != nil {
		t.Fatal(err)
	}
	got := life("carol-secret-0001", "alice-secret-0001", "bob-secret-000001")
	if got[0] != 0 || got[1] < 64 || got[2] < 64 {
		t.Errorf("after the store was lost carol finds %d tokens, alice %d and bob %d", got[0], got[1], got[2])
	}
}

// TestTenantsAcrossNodes checks that a replica fetches another node's blocks only for a sequence
// with the same salt.
func TestTenantsAcrossNodes(t *testing.T) {
	a, b := startPeers(t, nil, nil)
	prompt, alice, bob := text(1, 200), []byte("salt of alice"), []byte("salt of bob")
	want, cached := a.generateSalted(prompt, alice)
	if cached != 0 {
		t.Fatalf("%d tokens of a new prompt are cached", cached)
	}
	b.awaitSaltedBlocks(a.replica().GetName(), prompt, alice)
	for _, tc := range []struct {
		salt   []byte
		cached uint32
	}{{nil, 0}, {bob, 0}, {alice, 192}} {
		got, cached := b.generateSalted(prompt, tc.salt)
		if !slices.Equal(got, want) || cached != tc.cached {
			t.Errorf("salt %q: got %v with %d tokens cached, want %v with %d", tc.salt, got, cached, want, tc.cached)
		}
	}
	waitFor(t, "the counters", func() bool { return b.replica().GetKvFetched() == 12 && a.replica().GetKvLent() == 12 })
}

// TestTenantsAreRoutedApart checks that either gateway routes a request to the replica with its
// tenant's blocks, and that explain counts no blocks of other tenants as cached.
func TestTenantsAreRoutedApart(t *testing.T) {
	keys, _ := withTenantKeys(t)
	nodes := startCluster(t, 2, func(_ int, c *node.Config) { keys(c) })
	deploy(t, nodes[0], kjvSpec(2), nodes[1])
	conn, prompt := connect(t, nodes[0]), strings.Repeat(system, 3)
	explained := func(id string) (cached uint32) { // maximum of all candidates
		for _, d := range answer[messages.ExplainResponse](t, conn, "troupe.v1.explain."+id, "").GetDecisions() {
			for _, c := range d.GetCandidates() {
				cached = max(cached, c.GetCachedTokens())
			}
		}
		return cached
	}
	cachedFor(t, nodes[0], "alice-secret-0001", prompt)
	waitFor(t, "alice's request to be routed to her blocks from the other node", func() bool {
		id, cached := cachedAs(t, nodes[1], "alice-secret-0001", prompt)
		return cached >= 64 && explained(id) >= 64
	})
	for i, n := range nodes {
		secret := []string{"bob-secret-000001", "carol-secret-0001"}[i]
		id, cached := cachedAs(t, n, secret, prompt)
		if cached != 0 {
			t.Errorf("%s finds %d tokens through node %d", secret, cached, i)
		}
		if cached := explained(id); cached != 0 {
			t.Errorf("%s through node %d: explain says that %d tokens were cached", secret, i, cached)
		}
	}
}

// cachedAs is like cachedFor, and also returns the request ID for explain.
func cachedAs(t *testing.T, n *node.Node, secret, prompt string) (id string, cached int) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"model": "kjv", "prompt": prompt, "max_tokens": 4})
	url := "http://" + n.HTTPAddr() + "/v1/completions"
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var c struct {
		ID string
		completion
	}
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", secret, res.StatusCode, err)
	}
	return c.ID, c.Usage.Details.Cached
}

// TestPinsArePerTenant checks that a pin keeps only the blocks of its tenant, and that kv.restore
// restores only those of its tenant.
func TestPinsArePerTenant(t *testing.T) {
	keys, _ := withTenantKeys(t)
	n := start(t, func(c *node.Config) { withManualTiers(t)(c); keys(c) })
	conn := connect(t, n)
	pin := func(tenant string) *messages.PinnedPrefix {
		body := fmt.Sprintf(`{"model":"kjv","prompt":%q,"tenant":%q}`, system, tenant)
		return answer[messages.KvPinResponse](t, conn, "troupe.v1.kv.pin", body).GetPin()
	}
	acme, common := pin("acme"), pin("shared")
	if acme.GetTenant() != "acme" || common.GetTenant() != "" || acme.GetName() == common.GetName() ||
		len(acme.GetCacheSalt()) > 0 {
		t.Fatalf("%v\n%v", acme, common)
	}
	if unnamed := pin(""); unnamed.GetName() != common.GetName() {
		t.Errorf("%s is the pin of the shared tenant, %s was made without a tenant", common.GetName(),
			unnamed.GetName())
	}
	answer[messages.KvUnpinResponse](t, conn, "troupe.v1.kv.unpin", fmt.Sprintf(`{"name":%q}`, common.GetName()))
	pinned := func() uint32 { return kvStats(t, conn).GetReplicas()[0].GetKvBlocksPinned() }
	prompt := system + " And the people said unto him,"
	cachedFor(t, n, "alice-secret-0001", prompt)
	cachedFor(t, n, "erin-secret-00001", prompt)
	cachedFor(t, n, "carol-secret-0001", prompt)
	waitFor(t, "acme's blocks to be pinned", func() bool { return pinned() == acme.GetBlocks() })
	for range 3 {
		answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", "")
	}
	for _, tc := range []struct {
		secret string
		cached int
	}{{"alice-secret-0001", 0}, {"erin-secret-00001", 0}, {"dave-secret-00001", int(acme.GetBlocks()) * 16}} {
		if _, cached := cachedFor(t, n, tc.secret, prompt); cached != tc.cached {
			t.Errorf("%s finds %d tokens after a flush, want %d", tc.secret, cached, tc.cached)
		}
	}
	answer[messages.KvOffloadResponse](t, conn, "troupe.v1.kv.offload", "")
	answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", `{"tier":"hbm"}`)
	for tenant, want := range map[string]bool{"alice": true, "bob": false, "shared": true, "": true} {
		body := fmt.Sprintf(`{"model":"kjv","prompt":%q,"tenant":%q}`, prompt, tenant)
		moved := answer[messages.KvRestoreResponse](t, conn, "troupe.v1.kv.restore", body).GetMoved()[0]
		if got := moved.GetBlocks()+moved.GetPresent() > 0; got != want {
			t.Errorf("tenant %q: %v", tenant, moved)
		}
	}
	m := request(t, conn, "troupe.v1.kv.pin", `{"model":"kjv","prompt":"a","tenant":"\u001b[2J"}`)
	if m.Header.Get("Nats-Service-Error-Code") != "400" {
		t.Errorf("a tenant that cannot be printed: %v", m.Header)
	}
}
