package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit"
)

// newDeployment returns the status of a deployment that wants some replicas and has some in the
// given states.
func newDeployment(
	name string, want uint32, state messages.DeploymentState, of ...messages.ReplicaState,
) *messages.DeploymentStatus {
	d := &messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{
			Name:     name,
			Path:     testkit.Model(),
			Replicas: new(want),
		}, State: state, Revision: 1,
	}
	for i, s := range of {
		replica := &messages.ReplicaStatus{Name: fmt.Sprintf("%s-%d", name, i), Model: name, State: s}
		d.Replicas = append(d.Replicas, replica)
	}
	return d
}

const (
	dReady    = messages.DeploymentState_DEPLOYMENT_STATE_READY
	dDegraded = messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED
	dPending  = messages.DeploymentState_DEPLOYMENT_STATE_PENDING
	dFailed   = messages.DeploymentState_DEPLOYMENT_STATE_FAILED
	rServing  = messages.ReplicaState_REPLICA_STATE_SERVING
	rLoading  = messages.ReplicaState_REPLICA_STATE_LOADING
	rDraining = messages.ReplicaState_REPLICA_STATE_DRAINING
)

// TestReadyOfNode checks that the node is unready only if some model wants replicas and no model has one that
// serves.
func TestReadyOfNode(t *testing.T) {
	good := newDeployment("good", 1, dReady, rServing)
	type all = []*messages.DeploymentStatus
	for name, tc := range map[string]struct {
		all
		want int
	}{
		"nothing deployed":           {nil, 200},
		"all serve":                  {all{good, newDeployment("more", 2, dReady, rServing, rServing)}, 200},
		"one is pending":             {all{good, newDeployment("new", 1, dPending, rLoading)}, 200},
		"one has failed":             {all{good, newDeployment("bad", 1, dFailed)}, 200},
		"another is scaled to zero":  {all{good, newDeployment("off", 0, dReady)}, 200},
		"all are scaled to zero":     {all{newDeployment("off", 0, dReady)}, 200},
		"one of two replicas serves": {all{newDeployment("half", 2, dDegraded, rServing, rLoading)}, 200},
		"the actor has moved":        {all{newDeployment("orphan", 1, dPending, rServing)}, 200},
		"the only one is pending":    {all{newDeployment("new", 1, dPending, rLoading)}, 503},
		"the only one has failed":    {all{newDeployment("bad", 1, dFailed)}, 503},
		"all replicas drain":         {all{newDeployment("old", 1, dReady, rDraining)}, 503},
		"the rest is scaled to zero": {all{newDeployment("new", 1, dPending), newDeployment("off", 0, dReady)}, 503},
	} {
		w := newTestGateway(t, noOutput)
		w.directory.all = tc.all
		rec := w.getWithKey("/ready", "")
		if rec.Code != tc.want || strings.Contains(rec.Body.String(), `"model"`) != (tc.want == 503) {
			t.Errorf("%s: %d %s, want %d", name, rec.Code, rec.Body, tc.want)
		}
	}
}

// modelReady is the response to /ready?model=NAME.
type modelReady struct {
	Ready                bool
	Causes               []gateway.Cause
	Model, State, Detail string
}

func readModel(t *testing.T, rec *httptest.ResponseRecorder) (m modelReady) {
	t.Helper()
	if err := json.Unmarshal(rec.Body.Bytes(), &m); err != nil {
		t.Fatalf("%s: %v", rec.Body, err)
	}
	return m
}

// TestReadyOfModel checks that the response combines the state of the model with that of the node.
func TestReadyOfModel(t *testing.T) {
	var causes []gateway.Cause
	w := newTestGateway(t, noOutput,
		func(cfg *gateway.Config) { cfg.Causes = func() []gateway.Cause { return causes } })
	w.directory.all = nil
	failed := newDeployment("bad", 1, dFailed)
	failed.Detail = "open /srv/models/bad/config.json: no such file"
	for _, d := range []*messages.DeploymentStatus{
		newDeployment("good", 1, dReady, rServing), newDeployment("half", 2, dDegraded, rServing),
		newDeployment("new", 1, dPending, rLoading), newDeployment("off", 0, dReady), failed,
	} {
		w.directory.add(d)
	}
	w.adapters.add(&messages.AdapterSpec{Model: "good", Name: "psalms", Path: "/a"})
	w.adapters.add(&messages.AdapterSpec{Model: "new", Name: "hymns", Path: "/a"})
	for name, want := range map[string]struct {
		status int
		state  string
	}{
		"good": {200, "ready"}, "half": {200, "degraded"}, "new": {503, "pending"},
		"off": {503, "stopped"}, "bad": {503, "failed"},
		"psalms": {200, "ready"}, "good:psalms": {200, "ready"}, "hymns": {503, "pending"},
	} {
		rec := w.getWithKey("/ready?model="+name, "")
		got := readModel(t, rec)
		if rec.Code != want.status || got.Ready != (want.status == 200) || got.State != want.state ||
			got.Model != name {
			t.Errorf("%s: %d %s, want %d and state %s", name, rec.Code, rec.Body, want.status, want.state)
		}
		if slices.Contains(got.Causes, gateway.CauseModel) == got.Ready || strings.Contains(rec.Body.String(), "/srv") {
			t.Errorf("%s: %s", name, rec.Body)
		}
	}
	if got := readModel(t, w.getWithKey("/ready?model=bad", "")); got.Detail != "open config.json: no such file" {
		t.Errorf("detail %q", got.Detail)
	}
	rec := w.getWithKey("/ready?model=absent", "")
	if rec.Code != 404 || !strings.Contains(rec.Body.String(), "model_not_found") {
		t.Errorf("absent: %d %s", rec.Code, rec.Body)
	}
	causes = []gateway.Cause{gateway.CauseDraining}
	if rec := w.getWithKey("/ready?model=good", ""); rec.Code != 503 ||
		!slices.Equal(readModel(t, rec).Causes, causes) {
		t.Errorf("draining node: %d %s", rec.Code, rec.Body)
	}
	w.directory.fail(errors.New("router of /srv/troupe is gone"))
	if rec := w.getWithKey("/ready?model=good", ""); rec.Code != 503 || strings.Contains(rec.Body.String(), "/srv") {
		t.Errorf("without a directory: %d %s", rec.Code, rec.Body)
	}
}

// TestReadyOfHiddenModel checks that a model's readiness is visible only to keys that may use it.
func TestReadyOfHiddenModel(t *testing.T) {
	w := newKeyedGateway(t, &bytes.Buffer{})
	w.adapters.add(&messages.AdapterSpec{Model: "other", Name: "hymns", Path: "/a"})
	body := func(model, key string) (int, string) {
		rec := w.getWithKey("/ready?model="+model, key)
		return rec.Code, strings.ReplaceAll(rec.Body.String(), model, "NAME")
	}
	for key, want := range map[string]int{
		"": 401, "sk-unknown-0123456789": 401, kjvOnly: 404, anyModel: 200, rootKey: 200,
	} {
		got, text := body("other", key)
		if got != want {
			t.Errorf("model other with key %q: %d %s, want %d", key, got, text, want)
		}
		if absent, other := body("absent", key); want >= 400 && (absent != got || other != text) {
			t.Errorf("key %q: hidden model returns %d %s, absent model %d %s", key, got, text, absent, other)
		}
	}
	for _, name := range []string{"hymns", "other:hymns"} {
		if got, text := body(name, kjvOnly); got != 404 {
			t.Errorf("%s: %d %s", name, got, text)
		}
	}
	if got, text := body("kjv", kjvOnly); got != 200 {
		t.Errorf("model of the key: %d %s", got, text)
	}
}
