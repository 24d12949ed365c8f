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

// TestSurplusTensors: a tensor that the model would not use is refused by name.
func TestSurplusTensors(t *testing.T) {
	tied := small
	tied.Tied = true
	for name, tc := range map[string]struct {
		shape  reference.Shape
		extra  map[string][]int
		fields map[string]any
		want   string
	}{
		"a layer too many": {shape: small, fields: map[string]any{"num_hidden_layers": 1},
			want: `tensor model.layers.1.`},
		"a bias that the config denies": {shape: small,
			extra: map[string][]int{"model.layers.0.self_attn.q_proj.bias": {32}},
			want:  `tensor model.layers.0.self_attn.q_proj.bias is not part of a LlamaForCausalLM`},
		"a norm of Qwen3": {shape: small, extra: map[string][]int{"model.layers.1.self_attn.q_norm.weight": {8}},
			want: `tensor model.layers.1.self_attn.q_norm.weight is not`},
		"a head of another shape": {shape: tied, extra: map[string][]int{"lm_head.weight": {63, 32}},
			want: "tensor lm_head.weight is not of the shape"},
		"anything else": {shape: small, extra: map[string][]int{"vision.weight": {3}},
			want: "tensor vision.weight is not"},
		"several": {shape: small, extra: map[string][]int{"b.weight": {3}, "a weight": {3}, "c.weight": {3}},
			want: "tensor b.weight (and 2 more) is not"},
		"an unusual name": {shape: small, extra: map[string][]int{"root:secret:0": {3}},
			want: "a tensor with an unusual name is not"},
	} {
		tc.shape.Extra = tc.extra
		dir := reference.Random(t, tc.shape, 1)
		edit(t, dir, tc.fields)
		refused(t, name, dir, tc.want)
	}
}

// TestInertTensors: a model is served beside tensors that are known to change nothing.
func TestInertTensors(t *testing.T) {
	s := small
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
	// One bit of the tied head that differs is found by the load, which reads all of it.
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
		t.Errorf("a head that differs: %v", err)
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

// TestWrongFormats: a path to something else than a folder of safetensors is said to be that.
func TestWrongFormats(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("GGUF"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused(t, "a GGUF file", write("model.gguf"),
		"model.gguf: GGUF files are not supported; give the folder of a Hugging Face model")
	refused(t, "a folder of GGUF files", dir, "the folder has GGUF files, which are not supported, and no config.json")
	refused(t, "a file", write("weights.safetensors"), "weights.safetensors: not a folder")
	torch := reference.Random(t, small, 1)
	if err := os.Rename(filepath.Join(torch, "model.safetensors"), filepath.Join(torch,
		"pytorch_model.bin")); err != nil {
		t.Fatal(err)
	}
	refused(t, "a PyTorch model", torch, "pytorch_model*.bin is not supported")
}
