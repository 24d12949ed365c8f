package llama_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/engine/llama"
	"troupe/testkit/reference"
)

// allocated returns the number of heap bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// inspectBudget returns what the inspection of a folder may allocate: a multiple of the size of its
// headers, plus a constant.
func inspectBudget(config, header int) uint64 { return 1<<20 + 64*uint64(config+header) }

// TestHostileNumbers checks that a number in config.json that the tensors do not confirm is refused
// and costs almost no memory, both for an inspection and for an adapter.
func TestHostileNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		fields map[string]any
		want   string
	}{
		"most layers": {map[string]any{"num_hidden_layers": 4096},
			"tensor model.layers.2.input_layernorm.weight is missing"},
		"millions of layers": {map[string]any{"num_hidden_layers": 16777216}, "num_hidden_layers is 16777216"},
		"negative layers":    {map[string]any{"num_hidden_layers": -1}, "num_hidden_layers is -1"},
		"fraction":           {map[string]any{"num_hidden_layers": 2.5}, "num_hidden_layers"},
		"beyond int64":       {map[string]any{"vocab_size": 1e30}, "vocab_size"},
		"largest of all": {map[string]any{
			"vocab_size": 1 << 24, "hidden_size": 1 << 24, "intermediate_size": 1 << 24, "num_hidden_layers": 1 << 12,
			"num_attention_heads": 1 << 12, "num_key_value_heads": 1 << 12, "head_dim": 1 << 12,
			"max_position_embeddings": 1 << 24,
		}, "tensor model.embed_tokens.weight has shape [64 32]"},
		"heads that overflow": {map[string]any{"num_attention_heads": 1 << 24, "num_key_value_heads": 1,
			"head_dim": 1 << 12}, "num_attention_heads is 16777216"},
		"head of a gigabyte":  {map[string]any{"head_dim": 1 << 24}, "head_dim is 16777216"},
		"negative theta":      {map[string]any{"rope_theta": -5.0}, "rope_theta is -5"},
		"theta that vanishes": {map[string]any{"rope_theta": 1e-300}, "rope_theta 1e-300"},
		"factor that vanishes": {map[string]any{"rope_scaling": map[string]any{"rope_type": "linear",
			"factor": 1e-300}},
			"angles that are not numbers"},
		"many ends": {map[string]any{"eos_token_id": make([]int, 100000)}, "eos_token_id lists 100000 ids"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := reference.Random(t, smallShape, 1)
			editConfig(t, dir, tc.fields)
			info, err := os.Stat(filepath.Join(dir, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			budget := inspectBudget(int(info.Size()), 4096)
			var inspected, opened error
			if n := allocated(func() {
				_, inspected = llama.Loader{}.Inspect(dir,
					cuda.Info{Weights: cuda.F32})
			}); n > budget {
				t.Errorf("the inspection allocated %d bytes; %d are allowed", n, budget)
			}
			if n := allocated(func() {
				_, opened = llama.Loader{}.OpenAdapter(dir, t.TempDir(),
					cuda.Info{Weights: cuda.F32})
			}); n > budget {
				t.Errorf("an adapter for it allocated %d bytes; %d are allowed", n, budget)
			}
			for _, err := range []error{inspected, opened} {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %q", err, tc.want)
				}
			}
		})
	}
}

// TestNotANumber checks that Python's text for NaN and infinity, which is not JSON, is refused when
// the folder is read.
func TestNotANumber(t *testing.T) {
	for _, literal := range []string{"NaN", "Infinity", "-Infinity", "1e400"} {
		for _, field := range []string{"rope_theta", "rms_norm_eps"} {
			dir := reference.Random(t, smallShape, 1)
			editConfig(t, dir, map[string]any{field: "LITERAL"})
			path := filepath.Join(dir, "config.json")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(b), `"LITERAL"`, literal)),
				0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := (llama.Loader{}).Inspect(dir, cuda.Info{Weights: cuda.F32}); err == nil ||
				!strings.Contains(err.Error(), "config.json") {
				t.Errorf("%s %s: %v", field, literal, err)
			}
		}
	}
}

// FuzzFolder checks that an inspection of any config.json and any weights header ends without a
// panic, with an error of one line, and allocates no more than its budget. The sizes that it
// accepts are positive.
func FuzzFolder(f *testing.F) {
	for seed, s := range []reference.Shape{smallShape, {Architecture: "Qwen3ForCausalLM", DType: "BF16", Hidden: 16,
		Heads: 2, KVHeads: 1, HeadDim: 8, Tied: true}} {
		dir := reference.Random(f, s, uint64(seed))
		config, header, data := contents(f, dir)
		f.Add(config, header, data)
		for _, change := range []map[string]any{
			{"num_hidden_layers": 16777216}, {"num_hidden_layers": 4096}, {"head_dim": -2},
			{"vocab_size": 1 << 24}, {"rope_theta": 1e-320}, {"eos_token_id": []int{1, -1}},
		} {
			editConfig(f, dir, change)
			hostile, _, _ := contents(f, dir)
			f.Add(hostile, header, data)
		}
	}
	many, err := json.Marshal(make([]int, 200))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{}`), []byte(`{"a":{"dtype":"F32","shape":`+string(many)+`,"data_offsets":[0,0]}}`), uint32(0))
	f.Fuzz(func(t *testing.T, config, header []byte, data uint32) {
		dir := t.TempDir()
		file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		for name, content := range map[string][]byte{"config.json": config, "model.safetensors": file} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Truncate(filepath.Join(dir, "model.safetensors"), int64(len(file))+int64(data)); err != nil {
			t.Fatal(err)
		}
		budget := inspectBudget(len(config), len(header))
		var err error
		used := allocated(func() {
			facts, failed := llama.Loader{}.Inspect(dir, cuda.Info{Weights: cuda.BF16})
			err = failed
			if err == nil && (facts.WeightBytes < 1 || facts.KVTokenBytes < 1 || facts.RowBytes < 1 ||
				facts.LogitsBytes < 1 || facts.RankBytes < 1) {
				t.Errorf("accepted with %+v", facts)
			}
		})
		if used > budget {
			t.Errorf("%d bytes were allocated; %d are allowed", used, budget)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error with several lines: %v", err)
		}
	})
}

// contents returns config.json, the header of the weights and the number of data bytes after it.
func contents(t testing.TB, dir string) (config, header []byte, data uint32) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	end := 8 + binary.LittleEndian.Uint64(weights)
	return config, weights[8:end], uint32(uint64(len(weights)) - end)
}
