package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	"github.com/sashabaranov/go-openai"

	"troupe/gateway"
	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/testkit"
)

const (
	anyModel = "sk-any-0123456789"
	kjvOnly  = "sk-kjv-0123456789"
	rootKey  = "sk-root-0123456789"
)

// newKeyedGateway returns a gateway that serves kjv and other, with a key for all models, a key for
// kjv only, and an admin key.
func newKeyedGateway(t *testing.T, log *bytes.Buffer) *testGateway {
	t.Helper()
	keys := openKeys(t, fmt.Sprintf(
		"- {name: ann, key: %s}\n- {name: kim, key: %s, models: ['k*v']}\n- {name: root, key: %s, admin: true}\n",
		anyModel, kjvOnly, rootKey))
	w := newTestGateway(t, generateAtOnce("God did.", finishStop), func(cfg *gateway.Config) {
		cfg.Keys, cfg.Log = keys, zerolog.New(log)
		cfg.Routes = map[string]http.Handler{
			"/tree": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "tree") }),
		}
	})
	w.directory.add(&messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{
			Name: "other",
			Path: testkit.Model(),
		}, State: messages.DeploymentState_DEPLOYMENT_STATE_READY,
		Replicas: oneServing("other"),
	})
	return w
}

// openKeys returns the keys of a file with the given entries.
func openKeys(t *testing.T, entries string) *apikey.Keys {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("keys:\n"+entries), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := apikey.Open(file, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestKeyResponsesMatchGolden compares the responses to keys with testdata/wire.
func TestKeyResponsesMatchGolden(t *testing.T) {
	for name, tc := range map[string]struct{ method, path, authorization string }{
		"key_missing":        {"POST", "/v1/completions", ""},
		"key_unknown":        {"POST", "/v1/completions", "Bearer sk-unknown-0123456789"},
		"key_model_hidden":   {"POST", "/v1/completions?other", "Bearer " + kjvOnly},
		"key_model_missing":  {"POST", "/v1/completions?known", "Bearer " + kjvOnly},
		"key_models":         {"GET", "/v1/models", "Bearer " + kjvOnly},
		"key_models_all":     {"GET", "/v1/models", "Bearer " + anyModel},
		"key_model_describe": {"GET", "/v1/models/other", "Bearer " + kjvOnly},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newKeyedGateway(t, &bytes.Buffer{})
				path, model, _ := strings.Cut(tc.path, "?")
				r := httptest.NewRequest(tc.method, path,
					strings.NewReader(fmt.Sprintf(`{"model":"%s","prompt":"a","seed":0}`, model)))
				r.Header.Set("Authorization", tc.authorization)
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, r)
				got := fmt.Sprintf("# %s %s %s %s\n%d %s\n", tc.method, path, model, tc.authorization, rec.Code,
					rec.Header().Get("Content-Type"))
				for _, challenge := range rec.Header().Values("WWW-Authenticate") {
					got += "WWW-Authenticate: " + challenge + "\n"
				}
				compareGolden(t, filepath.Join("testdata", "wire", name+".txt"),
					got+"\n"+normalizeBody(rec.Body.String()))
			})
		})
	}
}

// TestAccessByRoute checks the status of each route for each kind of key.
func TestAccessByRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		w := newKeyedGateway(t, log)
		for _, tc := range []struct {
			path, body, user, password, bearer string
			want                               int
		}{
			{path: "/live", want: 200},
			{path: "/health", want: 200},
			{path: "/ready", want: 200},
			{path: "/metrics", want: 401},
			{path: "/metrics", bearer: anyModel, want: 403},
			{path: "/metrics", bearer: rootKey, want: 200},
			{path: "/tree", want: 401},
			{path: "/tree", bearer: anyModel, want: 403},
			{path: "/tree", bearer: rootKey, want: 200},
			{path: "/tree", user: "anybody", password: rootKey, want: 200},
			{path: "/tree", user: rootKey, password: "x", want: 401},
			{path: "/v1/embeddings", body: "{}", want: 401},
			{path: "/v1/chat/completions", body: "{}", want: 401},
			{path: "/v1/completions", body: `{"model":"kjv","prompt":"a","seed":0}`, bearer: kjvOnly, want: 200},
			{path: "/v1/completions", body: `{"model":"kjv","prompt":"a","seed":0}`, bearer: anyModel, want: 200},
			{path: "/v1/completions", body: `{"model":"other","prompt":"a","seed":0}`, bearer: anyModel, want: 200},
			{path: "/v1/completions", body: `{"model":"other","prompt":"a","seed":0}`, bearer: kjvOnly, want: 404},
			// A page of another origin could make a browser send a password.
			{path: "/v1/completions", body: `{"model":"kjv","prompt":"a","seed":0}`, password: kjvOnly, want: 401},
			{path: "/v1/models/kjv", bearer: " " + kjvOnly, want: 200},
			{path: "/nowhere", want: 404},
		} {
			r := httptest.NewRequest(http.MethodGet, tc.path, nil)
			if tc.body != "" {
				r = httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.body))
			}
			if tc.password != "" {
				r.SetBasicAuth(tc.user, tc.password)
			}
			if tc.bearer != "" {
				r.Header.Set("Authorization", "bearer "+tc.bearer)
			}
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r)
			if rec.Code != tc.want {
				t.Errorf("%+v: %d %s", tc, rec.Code, rec.Body)
			}
		}
		for _, secret := range []string{anyModel, kjvOnly, rootKey} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("a key is in the log:\n%s", log)
			}
		}
		line := `"key":"kim","endpoint":"completions","model":"kjv","status":200`
		if !strings.Contains(log.String(), line) {
			t.Errorf("no line with %s:\n%s", line, log)
		}
	})
}

// TestOpenAIClientUnderstandsErrors checks that an OpenAI client decodes the errors.
func TestOpenAIClientUnderstandsErrors(t *testing.T) {
	w := newKeyedGateway(t, &bytes.Buffer{})
	server := httptest.NewServer(w)
	defer server.Close()
	ask := func(key, model string) (*openai.APIError, string) {
		cfg := openai.DefaultConfig(key)
		cfg.BaseURL = server.URL + "/v1"
		seed := 0
		res, err := openai.NewClientWithConfig(cfg).
			CreateCompletion(context.Background(), openai.CompletionRequest{Model: model, Prompt: "a", Seed: &seed})
		if err != nil {
			api, _ := err.(*openai.APIError)
			return api, ""
		}
		return nil, res.Choices[0].Text
	}
	if e, _ := ask("sk-wrong", "kjv"); e == nil || e.HTTPStatusCode != 401 || e.Code != "invalid_api_key" {
		t.Errorf("wrong key: %+v", e)
	}
	if e, _ := ask(kjvOnly, "other"); e == nil || e.HTTPStatusCode != 404 || e.Code != "model_not_found" {
		t.Errorf("another's model: %+v", e)
	}
	if e, text := ask(kjvOnly, "kjv"); e != nil || text != "God did." {
		t.Errorf("%q, %+v", text, e)
	}
}
