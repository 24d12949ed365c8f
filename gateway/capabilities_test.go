package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"troupe/messages"
	"troupe/testkit"
)

// TestBackendCapabilities checks that a request that asks for what the backend of its model cannot do is refused
// by name, and that a simulated model is labelled wherever a client sees it.
func TestBackendCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("word", finishLength))
		w.directory.add(&messages.DeploymentStatus{
			Spec: &messages.DeploymentSpec{
				Name: "sim", Path: testkit.Model(), BlockTokens: new(uint32(16)),
				Engine: &messages.EngineSpec{Kind: "simulated", Without: []string{"seeds", "token_ids"}},
			},
			State: messages.DeploymentState_DEPLOYMENT_STATE_READY, Revision: 1, Replicas: oneServing("sim"),
		})
		for body, want := range map[string]string{
			`"prompt": "x"`:                "",
			`"prompt": "x", "logprobs": 1`: "the simulated backend does not support log-probabilities (logprobs)",
			`"prompt": "x", "seed": 1`:     "the simulated backend does not support seeds (seeds)",
			`"prompt": [5, 6]`:             "does not support prompts and answers as token IDs (token_ids)",
		} {
			rec := w.post("/v1/completions", `{"model": "sim", "max_tokens": 1, `+body+`}`)
			if want == "" {
				if rec.Code != http.StatusOK || rec.Header().Get("X-Troupe-Simulated") != "true" ||
					!strings.Contains(rec.Body.String(), `"system_fingerprint":"simulated"`) {
					t.Errorf("%s: %d %v %s", body, rec.Code, rec.Header(), rec.Body)
				}
			} else if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), want) {
				t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
			}
			native := w.post("/v1/completions", `{"model": "kjv", "max_tokens": 1, `+body+`}`)
			if native.Code != http.StatusOK || native.Header().Get("X-Troupe-Simulated") != "" ||
				strings.Contains(native.Body.String(), "fingerprint") {
				t.Errorf("native, %s: %d %v %s", body, native.Code, native.Header(), native.Body)
			}
		}
		all := w.get("/v1/models").Body.String()
		if strings.Count(all, `"simulated":true`) != 1 {
			t.Error(all)
		}
	})
}
