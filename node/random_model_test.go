package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
	"troupe/testkit/reference"
)

// smallModel writes a random model of two layers, and the tokenizer of the shipped one. A step of it launches about 30
// kernels.
func smallModel(t *testing.T) string { return randomModel(t, 2, 32) }

// lightModel writes a random model with the tokenizer, the layers and the KV blocks of the shipped one, and a tenth of
// its weights. Its steps launch the same kernels and take a fraction of the time, and its outputs depend more on all
// blocks of their context. It is for tests that compare tokens with tokens, and not with goldens.
func lightModel(t *testing.T) string { return randomModel(t, 6, 64) }

func randomModel(t *testing.T, layers, hidden int) string {
	t.Helper()
	dir := reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "F16", Layers: layers, Vocab: 1024, ContextTokens: 1024,
		Hidden: hidden, Heads: 2, KVHeads: 2, HeadDim: 32, Tied: true,
	}, 1)
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		b, err := os.ReadFile(filepath.Join(testkit.Model(), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// withLight applies changes to a node's configuration, and makes its deployments serve the light model.
func withLight(t *testing.T, changes ...func(*node.Config)) func(*node.Config) {
	path := lightModel(t)
	return func(c *node.Config) {
		for _, change := range changes {
			change(c)
		}
		for _, d := range c.Deployments {
			d.Path = path
		}
	}
}

// lightSpec is like kjvSpec, for the light model.
func lightSpec(t *testing.T, replicas uint32) *messages.DeploymentSpec {
	spec := kjvSpec(replicas)
	spec.Path = lightModel(t)
	return spec
}
