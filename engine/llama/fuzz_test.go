package llama_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/engine/llama"
	"troupe/modelfile"
	"troupe/testkit"
)

// FuzzConfig parses arbitrary text as config.json and generation_config.json.
func FuzzConfig(f *testing.F) {
	b, err := os.ReadFile(filepath.Join(testkit.Model(), "config.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, []byte(`{"eos_token_id":[1,2]}`))
	f.Add(
		[]byte(`{"architectures":["MistralForCausalLM"],"rope_scaling":{"rope_type":"llama3","factor":8}}`),
		[]byte(`[`),
	)
	f.Add([]byte(`{"num_hidden_layers":16777216}`), []byte(strings.Repeat("[", 20000)))
	f.Fuzz(func(t *testing.T, config, generation []byte) {
		dir := t.TempDir()
		for name, content := range map[string][]byte{"config.json": config, "generation_config.json": generation} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Allocates(t, 64<<20, func() {
			if _, err := llama.ReadConfig(modelfile.Roots{}, dir); err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error with several lines: %v", err)
			}
		})
	})
}
