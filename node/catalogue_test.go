package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// adapterDir returns the folder of one of the shipped model's adapters.
func adapterDir(name string) string { return filepath.Join(testkit.Model(), "adapters", name) }

// registerBody returns the body of a request that registers an adapter of kjv.
func registerBody(name, folder string) string {
	b, err := json.Marshal(map[string]any{
		"adapter":  map[string]any{"name": name, "model": "kjv", "path": folder},
		"any_base": false,
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestAdapterCatalogue follows an adapter from its registration to its deletion.
func TestAdapterCatalogue(t *testing.T) {
	n := start(t, func(cfg *node.Config) { cfg.Deployments[0].Path = testkit.Model() })
	conn := connect(t, n)
	const on = "troupe.v1.adapters."
	register := func(name, folder string) *messages.AdapterSpec {
		t.Helper()
		return answer[messages.RegisterAdapterResponse](t, conn, on+"register", registerBody(name, folder)).GetAdapter()
	}
	first := register("psalms", adapterDir("psalms"))
	if first.GetRevision() == 0 || first.GetRank() == 0 || first.GetBytes() == 0 || first.GetRegistered() == nil ||
		!filepath.IsAbs(first.GetPath()) {
		t.Errorf("%v", first)
	}
	register("org/shout.v1", adapterDir("shout"))
	if list := answer[messages.ListAdaptersResponse](t, conn, on+"list", `{"limit":1}`); len(list.GetAdapters()) != 1 ||
		list.GetAdapters()[0].GetName() != "org/shout.v1" ||
		!list.GetMore() {
		t.Errorf("%v", list)
	}
	list := answer[messages.ListAdaptersResponse](t, conn, on+"list", `{"model":"kjv","after":"kjv:org/shout.v1"}`)
	if len(list.GetAdapters()) != 1 || list.GetMore() {
		t.Errorf("%v", list)
	}
	pinned := answer[messages.AdapterResponse](t, conn, on+"pin", `{"name":"psalms"}`).GetAdapter()
	if !pinned.GetPinned() || pinned.GetRevision() != first.GetRevision() {
		t.Errorf("%v", pinned)
	}
	if a := answer[messages.AdapterResponse](t, conn, on+"unpin",
		`{"name":"psalms","model":"kjv"}`).GetAdapter(); a.GetPinned() ||
		a.GetRevision() != first.GetRevision() {
		t.Errorf("%v", a)
	}
	if again := register("psalms", adapterDir("psalms")); again.GetRevision() <= first.GetRevision() {
		t.Errorf("registered again, but still revision %d", again.GetRevision())
	}
	if s := answer[messages.AdapterStatsResponse](t, conn, on+"stats", ``); s.GetRegistered() != 2 {
		t.Errorf("%v", s)
	}
	models := getBody(t, n, "/v1/models")
	if !strings.Contains(models, `"id":"psalms"`) || !strings.Contains(models, `"parent":"kjv"`) {
		t.Errorf("%s", models)
	}
	answer[messages.AdapterResponse](t, conn, on+"delete", `{"name":"kjv:psalms"}`)
	if status, body := post(t, n, "/v1/completions",
		map[string]any{"model": "psalms", "prompt": "a"}); status != http.StatusNotFound ||
		!strings.Contains(string(body), "there are: kjv, and adapters, which /v1/models lists") {
		t.Errorf("a request after the deletion: %d %s", status, body)
	}
	if models := getBody(t, n, "/v1/models"); strings.Contains(models, "psalms\"") {
		t.Errorf("%s", models)
	}
}

// TestAdapterRefusals checks that a refused registration names the fault and, where there is one,
// the tensor.
func TestAdapterRefusals(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.CopyFS(foreign, os.DirFS(adapterDir("psalms"))); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(foreign, "adapter_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(old, new string) {
		t.Helper()
		changed := strings.Replace(string(config), old, new, 1)
		if changed == string(config) {
			t.Fatalf("%s has no %s", config, old)
		}
		if err := os.WriteFile(filepath.Join(foreign, "adapter_config.json"), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(subject, body, code string, say ...string) {
		t.Helper()
		m := request(t, conn, "troupe.v1.adapters."+subject, body)
		if got := m.Header.Get("Nats-Service-Error-Code"); got != code {
			t.Errorf("%s %s: %q %s", subject, body, got, m.Data)
		}
		for _, s := range say {
			if !strings.Contains(string(m.Data), s) {
				t.Errorf("%s %s lacks %q: %s", subject, body, s, m.Data)
			}
		}
	}
	answer[messages.RegisterAdapterResponse](t, conn, "troupe.v1.adapters.register",
		registerBody("psalms", adapterDir("psalms")))
	t.Run("of another base model", func(t *testing.T) {
		refused("register", registerBody("a", testkit.Shared(t, "data/models/stories260K-lora/dragon")), "400",
			"tensor base_model.model.", "another base model")
	})
	refused("register", registerBody("a", testkit.Model()), "400", "no adapter_config.json")
	refused("register", registerBody("a b", adapterDir("psalms")), "400", "a b")
	refused("register", registerBody("kjv", adapterDir("psalms")), "409", "name of a deployment")
	refused("register", registerBody("other:a", adapterDir("psalms")), "400", "leave one of them out")
	refused("register",
		strings.Replace(registerBody("a", adapterDir("psalms")), `"model":"kjv"`, `"model":"none"`, 1), "404",
		"deploy the adapter's base model first")
	refused("register", `{"adapter":{"name":"a"}}`, "400", "path is missing")
	refused("register", `{}`, "400", "name is missing")
	refused("register",
		strings.Replace(registerBody("psalms", adapterDir("psalms")), `"any_base":false`, `"only_new":true`, 1),
		"409", "already registered")
	write(`"r": `, `"r": 1`)
	refused("register", registerBody("a", foreign), "400", "tensor base_model.model.model.layers.0", "rank")
	write(`kjv-2m`, `another/kjv-9b`)
	refused("register", registerBody("a", foreign), "400", "names another model than kjv", "any_base")
	answer[messages.RegisterAdapterResponse](t, conn, "troupe.v1.adapters.register",
		strings.Replace(registerBody("a", foreign), `"any_base":false`, `"any_base":true`, 1))
	for _, subject := range []string{"get", "pin", "unpin", "delete"} {
		refused(subject, `{}`, "400", "name is missing")
		refused(subject, `{"name":"none"}`, "404", "adapters.list")
		refused(subject, `{"name":"kjv:psalms","model":"other"}`, "400", "leave one of them out")
	}
	for _, name := range []string{"psalms", "kjv:psalms"} { // inference accepts it as a model
		m := request(t, conn, "troupe.v1.kv.pin", fmt.Sprintf(`{"model":%q,"prompt":"a"}`, name))
		if e := m.Header.Get("Nats-Service-Error"); !strings.Contains(e,
			name+` is an adapter; send "model": "kjv", "adapter": "psalms"`) {
			t.Errorf("a pin of %s: %s", name, m.Data)
		}
	}
	refused("list", `{"after":"psalms"}`, "400", "<model>:<name>")
	refused("list", `{"nonsense":1}`, "400", "nonsense")
	deploy := fmt.Sprintf(`{"deployment":{"name":"psalms","path":%q}}`, testkit.Model())
	if m := request(t, conn, "troupe.v1.models.deploy", deploy); m.Header.Get("Nats-Service-Error-Code") != "409" {
		t.Errorf("a deployment took an adapter's name: %s", m.Data)
	}
}

// TestConfiguredAdapters checks that configured adapters are registered when the node is up, keep
// their revision over a restart, and do not prevent a start if their files are gone.
func TestConfiguredAdapters(t *testing.T) {
	data, folder := t.TempDir(), filepath.Join(t.TempDir(), "psalms")
	if err := os.CopyFS(folder, os.DirFS(adapterDir("psalms"))); err != nil {
		t.Fatal(err)
	}
	configured := func(cfg *node.Config) {
		cfg.DataDir = data
		cfg.Adapters = []*messages.RegisterAdapterRequest{
			{Adapter: &messages.AdapterSpec{Name: "psalms", Model: "kjv", Path: folder, Pinned: true}},
		}
	}
	var revision uint64
	for life := range 3 {
		t.Run(fmt.Sprint("life ", life), func(t *testing.T) {
			n := start(t, configured)
			a, err := n.Backend().Adapter("psalms")
			if err != nil || !a.GetPinned() || revision != 0 && a.GetRevision() != revision {
				t.Errorf("%v, %v; was revision %d", a, err, revision)
			}
			revision = a.GetRevision()
		})
		if life == 1 {
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAdaptersAreAppliedOnce checks that a restart does not undo a pin or unpin by command until
// the configuration changes.
func TestAdaptersAreAppliedOnce(t *testing.T) {
	data := t.TempDir()
	life := func(pinned bool, then func(n *node.Node, a *messages.AdapterSpec)) {
		t.Run("", func(t *testing.T) {
			n := start(t, func(cfg *node.Config) {
				cfg.DataDir = data
				cfg.Adapters = []*messages.RegisterAdapterRequest{
					{
						Adapter: &messages.AdapterSpec{
							Name:   "psalms",
							Model:  "kjv",
							Path:   adapterDir("psalms"),
							Pinned: pinned,
						},
					},
				}
			})
			a, err := n.Backend().Adapter("psalms")
			if err != nil {
				t.Fatal(err)
			}
			then(n, a)
		})
	}
	var first uint64
	life(false, func(n *node.Node, a *messages.AdapterSpec) {
		if first = a.GetRevision(); a.GetPinned() {
			t.Errorf("at first: %v", a)
		}
		if _, err := n.Backend().PinAdapter(t.Context(), "psalms", true); err != nil {
			t.Error(err)
		}
	})
	life(false, func(_ *node.Node, a *messages.AdapterSpec) {
		if !a.GetPinned() || a.GetRevision() != first {
			t.Errorf("pinned and restarted: %v", a)
		}
	})
	life(true, func(n *node.Node, a *messages.AdapterSpec) {
		if !a.GetPinned() || a.GetRevision() == first {
			t.Errorf("with another configuration: %v", a)
		}
		if _, err := n.Backend().PinAdapter(t.Context(), "psalms", false); err != nil {
			t.Error(err)
		}
	})
	life(true, func(_ *node.Node, a *messages.AdapterSpec) {
		if a.GetPinned() {
			t.Errorf("unpinned and restarted: %v", a)
		}
	})
}

// getBody returns the body of a page.
func getBody(t *testing.T, n *node.Node, path string) string {
	t.Helper()
	rec := httptest.NewRecorder()
	n.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec.Body.String()
}
