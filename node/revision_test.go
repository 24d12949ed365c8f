package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/cuda/host"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/node"
	"troupe/testkit"
)

// copyModel returns a copy of the shipped model that a test may change.
func copyModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	return dir
}

// retrain replaces the weights in a folder by others of the same shapes, in a new file, as a
// download does.
func retrain(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 4; i < len(b)/2; i++ {
		if i%2 == 1 {
			b[i] ^= 2 // a high bit of an F16 fraction
		}
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// servingFolder configures a node to serve a folder.
func servingFolder(dir string) func(*node.Config) {
	return func(c *node.Config) { c.Deployments[0].Path = dir }
}

// completeGoldens returns the completions of many prompts, each requested several times so that all
// replicas serve some.
func completeGoldens(t *testing.T, n *node.Node) (all []string) {
	t.Helper()
	for _, g := range goldens(t)[:3] {
		for range 4 {
			status, body := post(t, n, "/v1/completions", map[string]any{
				"model": "kjv", "prompt": g.Prompt, "max_tokens": 12, "temperature": 0,
			})
			var c completion
			if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			if !slices.Contains(all, g.Prompt+c.Choices[0].Text) {
				all = append(all, g.Prompt+c.Choices[0].Text)
			}
		}
	}
	return all
}

func deployment(t *testing.T, n *node.Node) *messages.DeploymentStatus {
	t.Helper()
	d, err := n.Backend().Deployment(t.Context(), "kjv")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestChangedFilesAreNotServed checks that a replica that starts after the files have changed serves the
// weights of a replica that has the deployed ones. If none is left, it does not serve, and the deployment
// reports it. models.deploy then rolls all replicas to the new files.
func TestChangedFilesAreNotServed(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := copyModel(t)
	n := start(t, func(c *node.Config) {
		servingFolder(dir)(c)
		// A GPU has room for one replica, since a second one would use the weights of the first.
		c.Deployments[0].KvBlocks = new(uint32(100))
		const memory = 22 << 20
		c.Devices = []host.Config{
			{MemoryBytes: memory}, {Index: 1, MemoryBytes: memory}, {Index: 2, MemoryBytes: memory},
		}
	})
	before := completeGoldens(t, n)
	waitFor(t, "the digests", func() bool { return deployment(t, n).GetSpec().GetRevisionDigest() != "" })
	retrain(t, dir)
	if _, _, err := n.Scale(t.Context(), "kjv", 2); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a second replica with the weights of the first", func() bool {
		replicas := deployment(t, n).GetReplicas()
		return len(replicas) == 2 && !slices.ContainsFunc(replicas, func(r *messages.ReplicaStatus) bool {
			return r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING
		})
	})
	if now := completeGoldens(t, n); !slices.Equal(now, before) {
		t.Errorf("completions\n%q\nbefore\n%q", now, before)
	}
	conn := connect(t, n)
	scale := func(text string) {
		t.Helper()
		answer, err := conn.Request("troupe.v1.models.scale", []byte(text), time.Minute)
		if err != nil || answer.Header.Get("Nats-Service-Error") != "" {
			t.Fatal(err, answer)
		}
	}
	scale(`{"name": "kjv", "replicas": 0, "drop": true}`)
	waitFor(t, "the replicas to stop", func() bool { return len(deployment(t, n).GetReplicas()) == 0 })
	scale(`{"name": "kjv", "replicas": 2}`)
	waitFor(t, "the replicas to be refused or to serve", func() bool {
		d := deployment(t, n)
		return strings.Contains(d.GetDetail(), "run models.deploy to roll to the new files") &&
			strings.Contains(d.GetDetail(), dir) ||
			d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY && len(d.GetReplicas()) == 2
	})
	if d := deployment(t, n); d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY {
		t.Errorf("%v: %s", d.GetState(), d.GetDetail())
	}
	first := deployment(t, n).GetSpec()
	spec := kjvSpec(2)
	spec.Path = dir
	if _, err := n.PutDeployment(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "two replicas to serve the new files", func() bool {
		d := deployment(t, n)
		fresh := len(d.GetReplicas()) == 2 && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
		for _, r := range d.GetReplicas() {
			fresh = fresh && r.GetRevisionDigest() == d.GetSpec().GetRevisionDigest() &&
				r.GetRevisionDigest() != first.GetRevisionDigest()
		}
		return fresh
	})
	if now := completeGoldens(t, n); len(now) != len(before) || slices.Equal(now, before) {
		t.Errorf("completions after models.deploy\n%q\nbefore\n%q", now, before)
	}
}

// TestDeployOfSameFilesStartsNoRollout checks that replicas stay if the files are known to be
// unchanged, and that the revision in the answer remains valid as if_revision.
func TestDeployOfSameFilesStartsNoRollout(t *testing.T) {
	n := start(t, nil)
	waitFor(t, "the digests", func() bool { return deployment(t, n).GetSpec().GetRevisionDigest() != "" })
	before := deployment(t, n)
	if s := before.GetSpec(); len(s.GetWeightsDigest()) != 64 || before.GetWeights() != s.GetWeightsDigest()[:12] ||
		before.GetRevisionShort() != s.GetRevisionDigest()[:12] {
		t.Errorf("%v", before)
	}
	spec := kjvSpec(1)
	if _, err := n.PutDeployment(t.Context(), spec, before.GetSpec().GetAskedRevision()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the change", func() bool { return deployment(t, n).GetRevision() != before.GetRevision() })
	now := deployment(t, n)
	if now.GetSpec().GetDeploy() != before.GetSpec().GetDeploy() ||
		now.GetSpec().GetRevisionDigest() != before.GetSpec().GetRevisionDigest() {
		t.Errorf("%v\n%v", before.GetSpec(), now.GetSpec())
	}
	if _, err := n.PutDeployment(t.Context(), spec, before.GetSpec().GetAskedRevision()); err == nil {
		t.Error("a revision from before another change is accepted")
	}
}

// TestServesWithoutFolder checks that a model whose folder is gone is scaled up with the weights of its
// first replica.
func TestServesWithoutFolder(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := copyModel(t)
	n := start(t, servingFolder(dir))
	before := completeGoldens(t, n)
	waitFor(t, "the digests", func() bool { return deployment(t, n).GetSpec().GetRevisionDigest() != "" })
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Scale(t.Context(), "kjv", 2); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a second replica, with the weights of the first one", func() bool {
		d := deployment(t, n)
		return d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY && len(d.GetReplicas()) == 2
	})
	if now := completeGoldens(t, n); !slices.Equal(now, before) {
		t.Errorf("%q\nand before\n%q", now, before)
	}
}

// TestDeployAsksOtherNodes checks that a folder that only another node has is inspected there, that both
// gateways serve the model, and that errors name the nodes that lack it.
func TestDeployAsksOtherNodes(t *testing.T) {
	nodes := startCluster(t, 2, func(i int, c *node.Config) {
		if i == 0 {
			var err error
			if c.Roots, err = modelfile.NewRoots(t.TempDir()); err != nil {
				t.Fatal(err)
			}
		}
	})
	conn := connect(t, nodes[0])
	if refused := deployError(t, conn, filepath.Join(t.TempDir(), "nothing")); !strings.Contains(refused,
		"no node has this folder") || !strings.Contains(refused, "a, b") {
		t.Errorf("%q", refused)
	}
	for range 8 { // either node may answer
		waitFor(t, "a deploy for which both nodes answered in time", func() bool {
			refused := deployError(t, conn, testkit.Model())
			if late := strings.Contains(refused, "no answer within"); late || refused == "" {
				return !late
			}
			t.Fatal(refused)
			return false
		})
	}
	waitFor(t, "a replica", func() bool { // on either node: b has the folder, and a gets the weights from b
		d, err := nodes[0].Backend().Deployment(t.Context(), "other")
		return err == nil && d.GetSpec().GetRevisionDigest() != "" && len(d.GetReplicas()) == 1 &&
			d.GetReplicas()[0].GetState() == messages.ReplicaState_REPLICA_STATE_SERVING
	})
	ask := map[string]any{"model": "other", "prompt": "a", "max_tokens": 1}
	for i, n := range nodes { // a gets the tokenizer from b
		if status, body := post(t, n, "/v1/completions", ask); status != http.StatusOK {
			t.Errorf("node %d: %d %s", i, status, body)
		}
	}
}

// TestRevise checks the deploy count and digests for each combination of stored and known digests.
func TestRevise(t *testing.T) {
	one, two := engine.Digests{Weights: "w1", Revision: "r1"}, engine.Digests{Weights: "w2", Revision: "r2"}
	stored := func(path string, d engine.Digests) *messages.DeploymentSpec {
		return &messages.DeploymentSpec{Path: path, Deploy: 3, WeightsDigest: d.Weights, RevisionDigest: d.Revision,
			AskedRevision: 7}
	}
	for _, tc := range []struct {
		name   string
		stored *messages.DeploymentSpec
		known  engine.Digests
		deploy uint64
		want   engine.Digests
	}{
		{"the first", nil, engine.Digests{}, 1, engine.Digests{}},
		{"the first one, known files", nil, one, 1, one},
		{"the same files", stored("p", one), one, 3, one},
		{"other files", stored("p", one), two, 4, two},
		{"unknown files", stored("p", one), engine.Digests{}, 4, engine.Digests{}},
		{"again, before the first replica is loaded", stored("p", engine.Digests{}), engine.Digests{}, 3,
			engine.Digests{}},
		{"another folder with the same files", stored("q", one), one, 4, one},
		{"another folder, before the first replica is loaded", stored("q", engine.Digests{}), engine.Digests{}, 4,
			engine.Digests{}},
	} {
		spec := &messages.DeploymentSpec{
			Path:           "p",
			Deploy:         99,
			AskedRevision:  99,
			WeightsDigest:  "x",
			RevisionDigest: "x",
		}
		node.Revise(spec, tc.stored, tc.known)
		if got := (engine.Digests{Weights: spec.GetWeightsDigest(),
			Revision: spec.GetRevisionDigest()}); got != tc.want ||
			spec.GetDeploy() != tc.deploy ||
			spec.GetAskedRevision() != 0 {
			t.Errorf("%s: %v", tc.name, spec)
		}
	}
}
