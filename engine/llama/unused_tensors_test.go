package llama_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit/reference"
)

// TestUnusedTensorsRefused checks that a tensor that the model does not use is refused by name.
func TestUnusedTensorsRefused(t *testing.T) {
	tied := smallShape
	tied.Tied = true
	for name, tc := range map[string]struct {
		shape  reference.Shape
		extra  map[string][]int
		fields map[string]any
		want   string
	}{
		"one layer too many": {shape: smallShape, fields: map[string]any{"num_hidden_layers": 1},
			want: `tensor model.layers.1.`},
		"a bias that config.json excludes": {shape: smallShape,
			extra: map[string][]int{"model.layers.0.self_attn.q_proj.bias": {32}},
			want:  `tensor model.layers.0.self_attn.q_proj.bias is not part of a LlamaForCausalLM`},
		"a norm of Qwen3": {shape: smallShape, extra: map[string][]int{"model.layers.1.self_attn.q_norm.weight": {8}},
			want: `tensor model.layers.1.self_attn.q_norm.weight is not`},
		"a head of another shape": {shape: tied, extra: map[string][]int{"lm_head.weight": {63, 32}},
			want: "tensor lm_head.weight differs in shape or type"},
		"anything else": {shape: smallShape, extra: map[string][]int{"vision.weight": {3}},
			want: "tensor vision.weight is not"},
		"several": {shape: smallShape, extra: map[string][]int{"b.weight": {3}, "a weight": {3}, "c.weight": {3}},
			want: "tensor b.weight (and 2 more) is not"},
		"an unusual name": {shape: smallShape, extra: map[string][]int{"root:secret:0": {3}},
			want: "a tensor with an unusual name is not"},
	} {
		tc.shape.Extra = tc.extra
		dir := reference.Random(t, tc.shape, 1)
		editConfig(t, dir, tc.fields)
		expectRefused(t, name, dir, tc.want)
	}
}

// TestHarmlessTensorsAccepted checks that a model loads although its folder has tensors that are
// known to have no effect.
func TestHarmlessTensorsAccepted(t *testing.T) {
	s := smallShape
	s.Tied = true
	s.Extra = map[string][]int{
		"model.layers.0.self_attn.rotary_emb.inv_freq": {4}, "model.layers.1.self_attn.rotary_emb.inv_freq": {4},
		"model.rotary_emb.inv_freq": {4},
		"lm_head.weight":            {64, 32},
	}
	dir := reference.Random(t, s, 1)
	if err := load(t, dir); err != nil {
		t.Fatal(err)
	}
	// Loading reads the whole tied head and detects a single different bit.
	path := filepath.Join(dir, "model.safetensors")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := 8 + binary.LittleEndian.Uint64(b)
	embedding := b[end:][:64*32*4]
	embedding[len(embedding)-1] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := load(t, dir); err == nil || !strings.Contains(err.Error(),
		"lm_head.weight differs from model.embed_tokens.weight") {
		t.Errorf("a different head: %v", err)
	}
}

func load(t *testing.T, dir string) error {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	_, err = residency.NewStore(device, llama.Loader{}).Load(t.Context(), engine.LoadSpec{Lease: "x", Path: dir,
		BlockTokens: 16, KVBlocks: 1})
	return err
}

// TestOtherFormatsRefused checks the errors for a path that is not a folder with safetensors files.
func TestOtherFormatsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("GGUF"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	expectRefused(t, "a GGUF file", write("model.gguf"),
		"model.gguf: GGUF files are not supported; give the folder of a Hugging Face model")
	expectRefused(
		t, "a folder of GGUF files", dir, "the folder has GGUF files, which are not supported, and no config.json",
	)
	expectRefused(t, "a file", write("weights.safetensors"), "weights.safetensors: not a folder")
	torch := reference.Random(t, smallShape, 1)
	if err := os.Rename(filepath.Join(torch, "model.safetensors"), filepath.Join(torch,
		"pytorch_model.bin")); err != nil {
		t.Fatal(err)
	}
	expectRefused(t, "a PyTorch model", torch, "pytorch_model*.bin is not supported")
}
