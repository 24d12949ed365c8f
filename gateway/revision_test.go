package gateway_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit"
)

// revised is a gateway that serves a folder that the test may change, and the deployment of it.
type revised struct {
	*world
	dir  string
	spec *messages.DeploymentStatus
}

func newRevised(t *testing.T) *revised {
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	r := &revised{world: newWorld(t, func(_ context.Context, call *gateway.Call) { call.Deliver(nil, nil, 0, stop) }),
		dir: dir}
	r.spec = &messages.DeploymentStatus{Revision: 1, Spec: &messages.DeploymentSpec{
		Name: "own", Path: dir, Deploy: 1, BlockTokens: new(uint32(16)), Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD.Enum(),
	}}
	r.directory.add(r.spec)
	return r
}

// change stores another revision of the deployment.
func (r *revised) change(f func(*messages.DeploymentSpec)) {
	r.spec = proto.CloneOf(r.spec)
	r.spec.Revision++
	f(r.spec.Spec)
	r.directory.replace(r.spec)
}

// digests are those of the folder as it is, as a replica finds them.
func (r *revised) digests() engine.Digests {
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
	defer d.Close()
	w, err := llama.Loader{}.Load(context.Background(), d, r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	defer w.Free()
	return w.Digests()
}

func (r *revised) answers(want int, text string) {
	r.t.Helper()
	got := r.ask("/v1/completions", `{"model":"own","prompt":"a"}`)
	if got.Code != want || !strings.Contains(got.Body.String(), text) {
		r.t.Errorf("%d %s", got.Code, got.Body)
	}
}

// damage cuts the tokenizer of the folder off.
func (r *revised) damage() {
	if err := os.Truncate(filepath.Join(r.dir, "tokenizer.json"), 100); err != nil {
		r.t.Fatal(err)
	}
}

// TestKeepsWhatItHasRead: a folder that is damaged or gone does no harm to a revision that is served,
// whatever else of the deployment changes.
func TestKeepsWhatItHasRead(t *testing.T) {
	for name, harm := range map[string]func(*revised){
		"damaged": (*revised).damage,
		"gone":    func(r *revised) { _ = os.RemoveAll(r.dir) },
	} {
		for _, known := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRevised(t)
					d := r.digests()
					identify := func(s *messages.DeploymentSpec) { s.WeightsDigest, s.RevisionDigest = d.Weights, d.Revision }
					if known {
						r.change(identify)
					}
					r.answers(http.StatusOK, "")
					harm(r)
					r.change(identify)
					r.answers(http.StatusOK, "")
					r.change(func(s *messages.DeploymentSpec) { s.Replicas = new(uint32(2)) })
					r.answers(http.StatusOK, "")
					r.change(func(s *messages.DeploymentSpec) { s.Deploy, s.WeightsDigest, s.RevisionDigest = 2, "", "" })
					r.answers(http.StatusOK, "") // until the new files are known
					r.change(func(s *messages.DeploymentSpec) {
						s.WeightsDigest, s.RevisionDigest = d.Weights, strings.Repeat("ab", 32)
					})
					r.answers(http.StatusServiceUnavailable, "ask another node")
				})
			})
		}
	}
}

// TestReadsTheDeployedRevisionOnly: a folder that has other files than those that are deployed is not read for them.
func TestReadsTheDeployedRevisionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRevised(t)
		d := r.digests()
		config := filepath.Join(r.dir, "tokenizer_config.json")
		before, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		put := func(b []byte) {
			if err := os.WriteFile(config, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put([]byte(`{"chat_template": "{{ messages[0].content }}"}`))
		r.change(func(s *messages.DeploymentSpec) { s.WeightsDigest, s.RevisionDigest = d.Weights, d.Revision })
		r.answers(http.StatusServiceUnavailable, "ask another node")
		put(before)
		r.answers(http.StatusOK, "")
	})
}
