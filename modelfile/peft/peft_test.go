package peft_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/modelfile"
	"troupe/modelfile/peft"
)

// base is a model with 3 layers, hidden size 4, one key-value head of size 2, and intermediate size
// 6.
func base(dtype cuda.DType) peft.Base {
	b := peft.Base{Layers: 3, DType: dtype}
	for t, s := range map[lora.Target][2]int{
		lora.Q: {4, 4}, lora.K: {2, 4}, lora.V: {2, 4}, lora.O: {4, 4}, lora.Gate: {6, 4}, lora.Up: {6, 4},
		lora.Down: {4, 6},
	} {
		b.Projections[t] = peft.Projection{Out: s[0], In: s[1]}
	}
	return b
}

// tensors maps names to shapes; each element's value is its index.
type tensors map[string][]int

// projection adds the matrices of one projection, with rank 2.
func (ts tensors) projection(layer int, module string, out, in int) tensors {
	name := fmt.Sprintf("base_model.model.model.layers.%d.%s.lora_", layer, module)
	ts[name+"A.weight"], ts[name+"B.weight"] = []int{2, in}, []int{out, 2}
	return ts
}

// folder writes a PEFT folder. Missing fields are those of a plain adapter of q_proj.
func folder(t *testing.T, fields map[string]any, dtype string, ts tensors) string {
	t.Helper()
	dir := t.TempDir()
	config := map[string]any{
		"peft_type":               "LORA",
		"r":                       2,
		"lora_alpha":              4,
		"target_modules":          []string{"q_proj"},
		"bias":                    "none",
		"base_model_name_or_path": "tiny",
	}
	maps.Copy(config, fields)
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]any{}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(ts)) {
		n, begin := 1, len(data)
		for _, d := range ts[name] {
			n *= d
		}
		for i := range n {
			bits := math.Float32bits(float32(i))
			switch dtype {
			case "F32":
				data = binary.LittleEndian.AppendUint32(data, bits)
			case "BF16":
				data = binary.LittleEndian.AppendUint16(data, uint16(bits>>16))
			case "F16":
				data = binary.LittleEndian.AppendUint16(
					data,
					[]uint16{
						0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800, 0x4880, 0x4900, 0x4980,
					}[i],
				)
			}
		}
		header[name] = map[string]any{"dtype": dtype, "shape": ts[name], "data_offsets": []int{begin, len(data)}}
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), append(head, data...)...)
	for name, content := range map[string][]byte{"adapter_config.json": b, "adapter_model.safetensors": file} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// queries returns the tensors of an adapter of q_proj in some layers.
func queries(layers ...int) tensors {
	ts := tensors{}
	for _, layer := range layers {
		ts.projection(layer, "self_attn.q_proj", 4, 4)
	}
	return ts
}

// TestModules: names, patterns and layers select the modules that PEFT would change.
func TestModules(t *testing.T) {
	for name, tc := range map[string]struct {
		fields map[string]any
		ts     tensors
		want   int // number of matrices
	}{
		"a name":        {nil, queries(0, 1, 2), 6},
		"end of a path": {map[string]any{"target_modules": []string{"self_attn.q_proj"}}, queries(0, 1, 2), 6},
		"a whole path":  {map[string]any{"target_modules": []string{"model.layers.1.self_attn.q_proj"}}, queries(1), 2},
		"layers": {
			map[string]any{"layers_to_transform": []int{0, 2}, "layers_pattern": "layers"}, queries(0, 2), 4,
		},
		"one layer": {map[string]any{"layers_to_transform": 2}, queries(2), 2},
		"pattern":   {map[string]any{"target_modules": `.*\.(1|2)\.self_attn\.q_proj`}, queries(1, 2), 4},
		"MLP beside it": {
			map[string]any{"target_modules": []string{"q_proj", "down_proj"}, "layers_to_transform": 0},
			queries(0).projection(0, "mlp.down_proj", 4, 6), 4,
		},
		"harmless extras": {map[string]any{"lora_dropout": 0.1, "modules_to_save": nil,
			"rank_pattern": map[string]int{}, "init_lora_weights": true, "revision": nil,
			"peft_version": "0.17.0", "megatron_core": "megatron.core", "qalora_group_size": 16,
			"corda_config": nil, "use_bdlora": nil, "ensure_weight_tying": false}, queries(0, 1, 2), 6},
	} {
		a, err := peft.Open(modelfile.Roots{}, folder(t, tc.fields, "F32", tc.ts), base(cuda.F32))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := len(maps.Collect(a.Layout.All())); got != tc.want || a.Base != "tiny" {
			t.Errorf("%s: %d matrices, base %q", name, got, a.Base)
		}
	}
	all := tensors{}
	for layer := range 3 {
		for target, s := range base(cuda.F32).Projections {
			block := "self_attn."
			if lora.Target(target) >= lora.Gate {
				block = "mlp."
			}
			all.projection(layer, block+lora.Target(target).String(), s.Out, s.In)
		}
	}
	dir := folder(t, map[string]any{"target_modules": "all-linear"}, "F32", all)
	if a, err := peft.Open(modelfile.Roots{}, dir, base(cuda.F32)); err != nil ||
		len(maps.Collect(a.Layout.All())) != 42 {
		t.Errorf("all-linear: %v", err)
	}
}

func TestScale(t *testing.T) {
	for stable, want := range map[bool]float32{false: 2, true: float32(4 / math.Sqrt2)} {
		a, err := peft.Open(
			modelfile.Roots{},
			folder(t, map[string]any{"use_rslora": stable}, "F32", queries(0, 1, 2)),
			base(cuda.F32),
		)
		if err != nil || a.Scale != want || a.Rank != 2 {
			t.Errorf("rslora %v: scale %v, rank %d, %v", stable, a.Scale, a.Rank, err)
		}
	}
}

// TestTypes: Read converts any file type to the device's type, at the offsets of the layout.
func TestTypes(t *testing.T) {
	for _, from := range []string{"F32", "F16", "BF16"} {
		for _, to := range []cuda.DType{cuda.F32, cuda.F16, cuda.BF16} {
			a, err := peft.Open(modelfile.Roots{}, folder(t, nil, from, queries(0, 1, 2)), base(to))
			if err != nil {
				t.Fatal(err)
			}
			image := make([]byte, a.Layout.Bytes())
			if err := a.Read(t.Context(), image); err != nil {
				t.Fatal(err)
			}
			for m, e := range a.Layout.All() {
				if e.Bytes != 8*to.Bytes() {
					t.Errorf("%v has %d bytes", m, e.Bytes)
				}
				for i := range 8 {
					at := image[e.Offset+int64(i)*to.Bytes():]
					var got float32
					switch to {
					case cuda.F32:
						got = math.Float32frombits(binary.LittleEndian.Uint32(at))
					case cuda.BF16:
						got = math.Float32frombits(uint32(binary.LittleEndian.Uint16(at)) << 16)
					case cuda.F16:
						got = float32(
							slices.Index(
								[]uint16{0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700},
								binary.LittleEndian.Uint16(at),
							),
						)
					}
					if got != float32(i) {
						t.Fatalf("%s to %s, %v: element %d is %v", from, to, m, i, got)
					}
				}
			}
		}
	}
}

// TestBadAdapters: an error is one line that names the fault.
func TestBadAdapters(t *testing.T) {
	wrong := queries(0, 1, 2)
	wrong["base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"] = []int{5, 2}
	rank := queries(0, 1, 2)
	rank["base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"] = []int{3, 4}
	extra := queries(0, 1, 2)
	extra["base_model.model.model.embed_tokens.lora_embedding_A"] = []int{2, 4}
	unusual := queries(0, 1, 2)
	unusual["a name: secret"] = []int{2, 4}
	for name, tc := range map[string]struct {
		fields map[string]any
		ts     tensors
		want   string
	}{
		"shape of B": {
			nil, wrong,
			"tensor base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight has shape [5 2], but rank and " +
				"base model require [4 2]",
		},
		"shape of A": {
			nil, rank, "tensor base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight has shape [3 4]",
		},
		"missing": {
			nil, queries(0, 2), "tensor base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight is missing",
		},
		"more": {
			nil, extra, "tensor base_model.model.model.embed_tokens.lora_embedding_A is not selected by",
		},
		"nothing": {map[string]any{"target_modules": "none"}, tensors{}, "changes nothing"},
		"unknown module": {
			map[string]any{"target_modules": []string{"q_proj", "lm_head"}}, queries(0, 1, 2),
			"unsupported module in target_modules",
		},
		"half a name": {
			map[string]any{"target_modules": []string{"proj"}}, queries(0, 1, 2),
			"unsupported module in target_modules",
		},
		"bad pattern":   {map[string]any{"target_modules": `(?!x)q`}, queries(0), "pattern"},
		"no modules":    {map[string]any{"target_modules": nil}, queries(0), "target_modules must be"},
		"unknown layer": {map[string]any{"layers_to_transform": []int{3}}, queries(0), "layer 3"},
		"layers pattern": {
			map[string]any{"layers_to_transform": 1, "layers_pattern": "h"}, queries(1), "unsupported layers_pattern",
		},
		"bias":                     {map[string]any{"bias": "all"}, queries(0, 1, 2), "unsupported bias"},
		"more, of an unusual name": {nil, unusual, "a tensor with an unusual name is not selected by"},
		"unknown key": {map[string]any{"use_bdlora": map[string]any{"nblocks": 2}}, queries(0, 1, 2),
			"key use_bdlora is unknown"},
		"unknown key of an unusual name": {map[string]any{"a key: secret": 1, "and another": 2}, queries(0, 1, 2),
			"a key with an unusual name (and 1 more) is unknown"},
		"upper case":      {map[string]any{"R": 2}, queries(0, 1, 2), "key R is unknown"},
		"alpha too large": {map[string]any{"lora_alpha": 1e300}, queries(0, 1, 2), "lora_alpha is 1e+300"},
		"alpha of words":  {map[string]any{"lora_alpha": "much"}, queries(0, 1, 2), "lora_alpha"},
		"alpha pattern": {map[string]any{"alpha_pattern": map[string]int{"q_proj": 4}}, queries(0, 1, 2),
			"alpha_pattern"},
		"fan in fan out": {map[string]any{"fan_in_fan_out": true}, queries(0, 1, 2), "fan_in_fan_out"},
		"another start": {
			map[string]any{"init_lora_weights": "LoRA_GA"}, queries(0, 1, 2), "init_lora_weights (lora_ga)",
		},
		"unknown start": {
			map[string]any{"init_lora_weights": "secret"}, queries(0, 1, 2), "init_lora_weights is not supported",
		},
		"dora": {map[string]any{"use_dora": true}, queries(0, 1, 2), "use_dora"},
		"many modules": {
			map[string]any{"target_modules": slices.Repeat([]string{"q_proj"}, 5000)}, queries(0, 1, 2),
			"more than 4096",
		},
		"rank 0":   {map[string]any{"r": 0}, queries(0, 1, 2), "r is 0"},
		"rank 257": {map[string]any{"r": 257}, queries(0, 1, 2), "r is 257"},
		"not LoRA": {map[string]any{"peft_type": "IA3"}, queries(0, 1, 2), "unsupported peft_type"},
		"rank pattern": {
			map[string]any{"rank_pattern": map[string]int{"q_proj": 4}}, queries(0, 1, 2), "rank_pattern",
		},
		"modules to save": {
			map[string]any{"modules_to_save": []string{"lm_head"}}, queries(0, 1, 2), "modules_to_save",
		},
		"pissa":      {map[string]any{"init_lora_weights": "pissa_niter_4"}, queries(0, 1, 2), "(pissa)"},
		"wrong type": {map[string]any{"r": "many"}, queries(0, 1, 2), "adapter_config.json"},
	} {
		refused(t, name, folder(t, tc.fields, "F32", tc.ts), tc.want)
	}
	refused(t, "no folder", filepath.Join(t.TempDir(), "none"), "no adapter_config.json")
	dir := folder(t, nil, "F32", queries(0, 1, 2))
	if err := os.Truncate(filepath.Join(dir, "adapter_model.safetensors"), 700); err != nil {
		t.Fatal(err)
	}
	refused(t, "truncated", dir, "download it again")
	if err := os.Remove(filepath.Join(dir, "adapter_model.safetensors")); err != nil {
		t.Fatal(err)
	}
	refused(t, "no weights", dir, "no adapter_model.safetensors")
}

func refused(t *testing.T, name, dir, want string) {
	t.Helper()
	if _, err := peft.Open(modelfile.Roots{}, dir, base(cuda.F32)); err == nil ||
		!strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "\n") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%s: %v", name, err)
	}
}

// TestFileThatVanishes: a file removed between Open and Read is an error that names the tensor.
func TestFileThatVanishes(t *testing.T) {
	dir := folder(t, nil, "F32", queries(0, 1, 2))
	a, err := peft.Open(modelfile.Roots{}, dir, base(cuda.F32))
	if err != nil {
		t.Fatal(err)
	}
	image := make([]byte, a.Layout.Bytes())
	if a.Read(t.Context(), image[1:]) == nil {
		t.Error("Read accepts a buffer that is too small")
	}
	if err := os.Truncate(filepath.Join(dir, "adapter_model.safetensors"), 900); err != nil {
		t.Fatal(err)
	}
	if err := a.Read(t.Context(), image); err == nil || !strings.Contains(err.Error(), "tensor base_model") {
		t.Errorf("truncated: %v", err)
	}
}
