package llama_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit/reference"
)

var smallShape = reference.Shape{Architecture: "LlamaForCausalLM", DType: "F32", Hidden: 32, Heads: 4, KVHeads: 2}

// editConfig sets fields of a model's config.json. A nil value removes a field.
func editConfig(t testing.TB, dir string, fields map[string]any) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for k, v := range fields {
		all[k] = v
	}
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidFoldersRefused checks that an invalid folder is refused with one line that names the
// cause, and that no device memory stays allocated.
func TestInvalidFoldersRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		fields map[string]any
		want   string
	}{
		"unknown architecture": {
			map[string]any{"architectures": []string{"GPT2LMHeadModel"}}, "architecture is not supported",
		},
		"more layers than tensors": {map[string]any{"num_hidden_layers": 1 << 24}, "num_hidden_layers is 16777216"},
		"unknown activation":       {map[string]any{"hidden_act": "gelu"}, "hidden_act is not supported"},
		"unknown rope scaling": {
			map[string]any{"rope_scaling": map[string]any{"type": "yarn"}}, "type of rope_scaling",
		},
		"negative size":           {map[string]any{"hidden_size": -4}, "hidden_size is -4"},
		"absurd size":             {map[string]any{"vocab_size": 1 << 40}, "vocab_size"},
		"heads that do not group": {map[string]any{"num_key_value_heads": 3}, "not a multiple"},
		"odd head":                {map[string]any{"head_dim": 7}, "head_dim 7 is odd"},
		"shape of another model": {
			map[string]any{"vocab_size": 65}, "tensor model.embed_tokens.weight has shape [64 32]",
		},
		"more layers than stored": {
			map[string]any{"num_hidden_layers": 3}, "tensor model.layers.2.input_layernorm.weight is missing",
		},
		"eos outside vocabulary": {map[string]any{"eos_token_id": 64}, "eos_token_id 64"},
		"quantized":              {map[string]any{"quantization_config": map[string]any{"bits": 4}}, "quantized"},
		"wrong type":             {map[string]any{"hidden_size": "many"}, "hidden_size"},
	} {
		dir := reference.Random(t, smallShape, 1)
		editConfig(t, dir, tc.fields)
		expectRefused(t, name, dir, tc.want)
	}
	expectRefused(t, "no folder", filepath.Join(t.TempDir(), "none"), "no config.json")
	dir := reference.Random(t, smallShape, 1)
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	expectRefused(t, "no weights", dir, "no weights")
	dir = reference.Random(t, smallShape, 1)
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 5000); err != nil {
		t.Fatal(err)
	}
	expectRefused(t, "truncated", dir, "download it again")
}

func expectRefused(t *testing.T, name, dir, want string) {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	store := residency.NewStore(device, llama.Loader{})
	for _, try := range []func() error{
		func() error { _, err := store.Inspect(dir, ""); return err },
		func() error {
			_, err := store.Load(t.Context(), engine.LoadSpec{Lease: "x", Path: dir, BlockTokens: 16, KVBlocks: 1})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if free, total := device.Memory(); free != total || len(store.Held()) != 0 {
		t.Errorf("%s: %d bytes are left on the device", name, total-free)
	}
}

// TestLoadFreesMemoryOnFailure checks that a load that runs out of memory frees what it allocated.
func TestLoadFreesMemoryOnFailure(t *testing.T) {
	dir := reference.Random(t, smallShape, 1)
	for _, memory := range []int64{1 << 10, 80 << 10} { // too small for the weights; too small for the blocks
		device, err := host.Open(host.Config{MemoryBytes: memory})
		if err != nil {
			t.Fatal(err)
		}
		store := residency.NewStore(device, llama.Loader{})
		_, err = store.Load(t.Context(), engine.LoadSpec{Lease: "x", Path: dir, BlockTokens: 16, KVBlocks: 100})
		if free, total := device.Memory(); !errors.Is(err, cuda.ErrOutOfMemory) || free != total {
			t.Errorf("%d bytes: %v, %d left", memory, err, total-free)
		}
		_ = device.Close()
	}
}

// TestLeaseSharedWhileEnginesOpen checks that a lease is loaded once, shared by all engines, and
// not freed while one is open.
func TestLeaseSharedWhileEnginesOpen(t *testing.T) {
	dir := reference.Random(t, smallShape, 1)
	device, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	store := residency.NewStore(device, llama.Loader{})
	spec := engine.LoadSpec{Lease: "x", Path: dir, BlockTokens: 16, KVBlocks: 4, Limits: limits}
	for range 3 {
		if _, err := store.Load(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	e, err := store.Open("x")
	if err != nil || store.Loads() != 1 {
		t.Fatalf("%v, loaded %d times", err, store.Loads())
	}
	if _, err := store.Unload("x"); err == nil {
		t.Error("a lease was freed while an engine was open")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if freed, err := store.Unload("x"); err != nil || freed == 0 {
		t.Errorf("freed %d, %v", freed, err)
	}
	if free, total := device.Memory(); free != total {
		t.Errorf("%d bytes are left", total-free)
	}
	if _, err := store.Open("x"); err == nil {
		t.Error("an unloaded lease was opened")
	}
}
