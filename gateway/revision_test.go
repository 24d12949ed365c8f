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

// revisionGateway is a gateway with a deployment whose folder the test may change.
type revisionGateway struct {
	*testGateway
	dir  string
	spec *messages.DeploymentStatus
}

func newRevisionGateway(t *testing.T) *revisionGateway {
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	r := &revisionGateway{
		testGateway: newTestGateway(t,
			func(_ context.Context, call *gateway.Call) { call.Deliver(nil, nil, 0, finishStop) }),
		dir: dir,
	}
	r.spec = &messages.DeploymentStatus{Revision: 1, Spec: &messages.DeploymentSpec{
		Name: "own", Path: dir, Deploy: 1, BlockTokens: new(uint32(16)),
		Priority: messages.Priority_PRIORITY_STANDARD.Enum(),
	}}
	r.directory.add(r.spec)
	return r
}

// change stores another revision of the deployment.
func (r *revisionGateway) change(f func(*messages.DeploymentSpec)) {
	r.spec = proto.CloneOf(r.spec)
	r.spec.Revision++
	f(r.spec.Spec)
	r.directory.replace(r.spec)
}

// digests returns the digests of the folder as a replica computes them.
func (r *revisionGateway) digests() engine.Digests {
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

func (r *revisionGateway) expect(want int, text string) {
	r.t.Helper()
	got := r.post("/v1/completions", `{"model":"own","prompt":"a"}`)
	if got.Code != want || !strings.Contains(got.Body.String(), text) {
		r.t.Errorf("%d %s", got.Code, got.Body)
	}
}

// truncateTokenizer damages the tokenizer file of the folder.
func (r *revisionGateway) truncateTokenizer() {
	if err := os.Truncate(filepath.Join(r.dir, "tokenizer.json"), 100); err != nil {
		r.t.Fatal(err)
	}
}

// TestServedRevisionSurvivesFolderDamage checks that a served revision remains usable after its
// folder is damaged or removed, whatever else of the deployment changes.
func TestServedRevisionSurvivesFolderDamage(t *testing.T) {
	for name, harm := range map[string]func(*revisionGateway){
		"damaged": (*revisionGateway).truncateTokenizer,
		"gone":    func(r *revisionGateway) { _ = os.RemoveAll(r.dir) },
	} {
		for _, known := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRevisionGateway(t)
					d := r.digests()
					identify := func(s *messages.DeploymentSpec) {
						s.WeightsDigest, s.RevisionDigest = d.Weights, d.Revision
					}
					if known {
						r.change(identify)
					}
					r.expect(http.StatusOK, "")
					harm(r)
					r.change(identify)
					r.expect(http.StatusOK, "")
					r.change(func(s *messages.DeploymentSpec) { s.Replicas = new(uint32(2)) })
					r.expect(http.StatusOK, "")
					r.change(func(s *messages.DeploymentSpec) {
						s.Deploy, s.WeightsDigest, s.RevisionDigest = 2, "", ""
					})
					r.expect(http.StatusOK, "") // until the revision of the new files is known
					r.change(func(s *messages.DeploymentSpec) {
						s.WeightsDigest, s.RevisionDigest = d.Weights, strings.Repeat("ab", 32)
					})
					r.expect(http.StatusServiceUnavailable, "ask another node")
				})
			})
		}
	}
}

// TestOtherRevisionInFolderRefused checks that a folder whose files are not the deployed revision
// is not used.
func TestOtherRevisionInFolderRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRevisionGateway(t)
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
		r.expect(http.StatusServiceUnavailable, "ask another node")
		put(before)
		r.expect(http.StatusOK, "")
	})
}
