package peft_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"troupe/cuda"
	"troupe/modelfile"
	"troupe/modelfile/peft"
)

// TestDefaults: missing or null fields have PEFT's defaults: lora_alpha 8, r 8.
func TestDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		remove []string
		null   []string
		scale  float32
		rank   int
	}{
		"alpha missing":         {[]string{"lora_alpha"}, nil, 4, 2},
		"alpha null":            {nil, []string{"lora_alpha"}, 4, 2},
		"rank and alpha absent": {[]string{"lora_alpha", "r"}, nil, 1, 8},
	} {
		dir := folder(t, nil, "F32", queries(0, 1, 2))
		path := filepath.Join(dir, "adapter_config.json")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]any{}
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		for _, key := range tc.remove {
			delete(fields, key)
		}
		for _, key := range tc.null {
			fields[key] = nil
		}
		if b, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := peft.ReadConfig(modelfile.Roots{}, dir)
		if err != nil || c.Scale != tc.scale || c.Rank != tc.rank {
			t.Errorf("%s: scale %v, rank %d, %v; want %v and %d", name, c.Scale, c.Rank, err, tc.scale, tc.rank)
		}
		if _, err := peft.Open(modelfile.Roots{}, dir, base(cuda.F32)); (err == nil) != (tc.rank == 2) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
