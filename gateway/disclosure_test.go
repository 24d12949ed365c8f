package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"troupe/core/backend"
	"troupe/engine"
	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit"
)

// getWithKey sends a GET request with a key, or without one if it is empty.
func (w *testGateway) getWithKey(path, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// TestReadyHidesModelNames checks that probes without an admin's key return only causes from the
// fixed list, and that details contain no paths.
func TestReadyHidesModelNames(t *testing.T) {
	w := newKeyedGateway(t, &bytes.Buffer{})
	const plain = `{"ready":false,"causes":["model"]}`
	w.directory.all = nil
	w.directory.add(&messages.DeploymentStatus{
		Spec:   &messages.DeploymentSpec{Name: "secret-70b", Path: "/srv/models/secret-70b", Replicas: new(uint32(1))},
		State:  messages.DeploymentState_DEPLOYMENT_STATE_FAILED,
		Detail: "open /srv/models/secret-70b/config.json: short of memory by 10.1 MiB",
	})
	for _, key := range []string{"", "sk-unknown-0123456789", kjvOnly, anyModel} {
		if rec := w.getWithKey("/ready", key); rec.Code != http.StatusServiceUnavailable ||
			strings.TrimSpace(rec.Body.String()) != plain {
			t.Errorf("%q: %d %s", key, rec.Code, rec.Body)
		}
	}
	rec := w.getWithKey("/ready", rootKey)
	if got := rec.Body.String(); !strings.Contains(got,
		`"secret-70b":"open config.json: short of memory by 10.1 MiB"`) {
		t.Errorf("an admin: %s", got)
	}
	open := newTestGateway(t, noOutput)
	open.directory.add(w.directory.all[0])
	if got := open.getWithKey("/ready", "").Body.String(); !strings.Contains(got, `"secret-70b":"open config.json`) {
		t.Errorf("without keys: %s", got)
	}
}

// TestReadyCauses checks that the causes of the node and of the directory are combined, and that
// error texts are not returned.
func TestReadyCauses(t *testing.T) {
	known := []gateway.Cause{
		gateway.CauseStarting, gateway.CauseDraining, gateway.CauseStore,
		gateway.CauseQuorum, gateway.CauseDisk, gateway.CauseModel,
	}
	for _, tc := range []struct {
		of   []gateway.Cause
		err  error
		want int
	}{
		{nil, nil, 200},
		{[]gateway.Cause{gateway.CauseStore, gateway.CauseQuorum}, nil, 503},
		{[]gateway.Cause{gateway.CauseDisk}, nil, 503},
		{nil, errors.New("router of /srv/troupe is gone"), 503},
	} {
		w := newTestGateway(t, noOutput,
			func(cfg *gateway.Config) { cfg.Causes = func() []gateway.Cause { return tc.of } })
		w.directory.fail(tc.err)
		rec := w.getWithKey("/ready", "")
		var state struct {
			Ready  bool
			Causes []gateway.Cause
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &state); err != nil || rec.Code != tc.want ||
			state.Ready != (tc.want == 200) ||
			(len(state.Causes) == 0) != state.Ready {
			t.Errorf("%v, %v: %d %s", tc.of, tc.err, rec.Code, rec.Body)
		}
		for _, c := range state.Causes {
			if !slices.Contains(known, c) {
				t.Errorf("cause %q is not in the list", c)
			}
		}
		if strings.Contains(rec.Body.String(), "/srv") {
			t.Errorf("%s", rec.Body)
		}
	}
}

// TestResponsesHidePaths checks that neither /v1/models nor errors reveal the paths of model files.
func TestResponsesHidePaths(t *testing.T) {
	log := &bytes.Buffer{}
	w := newTestGateway(t, func(_ context.Context, call *gateway.Call) {
		call.Fail(&messages.Refused{
			Reason: messages.Reason_REASON_NOT_READY,
			Detail: "replica kjv-0: open /srv/models/kjv/config.json: too large; see /v1/models",
		})
	}, func(cfg *gateway.Config) {
		cfg.Log = zerolog.New(log)
		cfg.Inspect = func(_ backend.Kind, path string) (engine.ModelInfo, error) {
			if path == "/srv/models/broken" {
				return engine.ModelInfo{}, fmt.Errorf("%s/config.json: no such file", path)
			}
			return inspectModel("", path)
		}
	})
	w.directory.add(&messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{Name: "broken", Path: "/srv/models/broken"},
	})
	w.adapters.add(&messages.AdapterSpec{Model: "kjv", Name: "psalms", Path: "/srv/adapters/psalms"})
	for _, rec := range []*httptest.ResponseRecorder{
		w.get("/v1/models"), w.get("/v1/models/kjv"), w.get("/v1/models/psalms"),
		w.post("/v1/completions", `{"model":"broken","prompt":"a"}`),
		w.post("/v1/completions", `{"model":"kjv","prompt":"a"}`),
	} {
		if got := rec.Body.String(); strings.Contains(got, "/srv") || strings.Contains(got, testkit.Model()) ||
			strings.Contains(got, "no such file") {
			t.Errorf("%d %s", rec.Code, got)
		}
	}
	if !strings.Contains(log.String(), "/srv/models/broken/config.json: no such file") {
		t.Errorf("the log does not contain the cause:\n%s", log)
	}
}

// TestAdapterPatternsOfKeys checks which keys may use an adapter by its short or full name.
// Wildcards do not match across the colon, nor short names.
func TestAdapterPatternsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var entries strings.Builder
		patterns := map[string]string{ // key -> models
			"star": `["*"]`, "wild": `["k*v"]`, "every": `["*:*"]`, "of": `["kjv:*"]`,
			"full": `["kjv:psalms"]`, "short": `[psalms]`, "both": `["*", "*:*"]`,
		}
		for name, models := range patterns {
			fmt.Fprintf(&entries, "- {name: %s, key: sk-%s-0123456789, models: %s}\n", name, name, models)
		}
		fmt.Fprint(&entries, "- {name: none, key: sk-none-0123456789}\n")
		keys := openKeys(t, entries.String())
		w := newTestGateway(t, generate("God did.", finishStop), func(cfg *gateway.Config) { cfg.Keys = keys })
		w.directory.add(
			&messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: "other", Path: testkit.Model()}})
		for _, name := range []string{"kjv psalms", "kjv shout", "other hymns"} {
			model, adapter, _ := strings.Cut(name, " ")
			w.adapters.add(&messages.AdapterSpec{Model: model, Name: adapter, Path: "/a"})
		}
		names := []string{"kjv", "other", "kjv:psalms", "psalms", "kjv:shout", "shout", "other:hymns", "hymns"}
		for key, open := range map[string]string{
			"star":  "kjv other",
			"wild":  "kjv",
			"every": "kjv:psalms psalms kjv:shout shout other:hymns hymns",
			"of":    "kjv:psalms psalms kjv:shout shout",
			"full":  "kjv:psalms psalms",
			"short": "kjv:psalms psalms",
			"both":  strings.Join(names, " "),
			"none":  strings.Join(names, " "),
		} {
			for _, name := range names {
				want := 404
				if slices.Contains(strings.Fields(open), name) {
					want = 200
				}
				rec := w.post("/v1/completions", `{"model":"`+name+`","prompt":"a"}`, "Authorization",
					"Bearer sk-"+key+"-0123456789")
				if rec.Code != want {
					t.Errorf("%s %s requests %s: %d, want %d: %s", key, patterns[key], name, rec.Code, want, rec.Body)
				}
			}
		}
	})
}

// recordingDirectory records the names of deployments that are looked up.
type recordingDirectory struct {
	gateway.Directory
	names []string
}

func (a *recordingDirectory) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	a.names = append(a.names, name)
	return a.Directory.Deployment(ctx, name)
}

// TestHiddenModelLooksAbsent checks that a model that a key may not use is indistinguishable from
// one that does not exist, by the error and by the failed lookups.
func TestHiddenModelLooksAbsent(t *testing.T) {
	var dir *recordingDirectory
	w := newKeyedGateway(t, &bytes.Buffer{})
	keys := openKeys(t, fmt.Sprintf("- {name: kim, key: %s, models: [kjv]}\n", kjvOnly))
	other := newTestGateway(t, noOutput, func(cfg *gateway.Config) {
		dir = &recordingDirectory{Directory: w.directory}
		cfg.Keys, cfg.Directory = keys, dir
	})
	other.adapters.add(&messages.AdapterSpec{Model: "kjv", Name: "psalms", Path: "/a"})
	for _, pair := range [][2]string{{"other", "absent"}, {"psalms", "absent"}, {"kjv:psalms", "kjv:absent"}} {
		var bodies, lookups [2]string
		for i, name := range pair {
			dir.names = nil
			rec := other.post("/v1/completions", `{"model":"`+name+`","prompt":"a"}`, "Authorization",
				"Bearer "+kjvOnly)
			bodies[i] = strings.ReplaceAll(fmt.Sprint(rec.Code, rec.Body), name, "NAME")
			for _, asked := range dir.names {
				_, err := w.directory.Deployment(t.Context(), asked)
				lookups[i] += fmt.Sprint(err != nil, " ")
			}
		}
		if bodies[0] != bodies[1] || lookups[0] != lookups[1] {
			t.Errorf("%s, hidden: %s (failed lookups: %s)\n%s, absent: %s (%s)", pair[0], bodies[0], lookups[0],
				pair[1], bodies[1], lookups[1])
		}
	}
}
