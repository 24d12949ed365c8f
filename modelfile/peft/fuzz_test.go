package peft_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/modelfile"
	"troupe/modelfile/peft"
	"troupe/testkit"
)

// FuzzConfig reads texts as adapter_config.json.
func FuzzConfig(f *testing.F) {
	b, err := os.ReadFile(filepath.Join(testkit.Model(), "adapters", "psalms", "adapter_config.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"peft_type":"LORA","r":2,"target_modules":"((a*)*)*","layers_to_transform":[1]}`))
	f.Add([]byte(`{"peft_type":"LORA","r":2,"target_modules":"` + strings.Repeat("(x{1,1000}){1,1000}", 100) + `"}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), config, 0o600); err != nil {
			t.Fatal(err)
		}
		testkit.Allocates(t, 256<<20, func() {
			if _, err := peft.ReadConfig(modelfile.Roots{}, dir); err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatalf("a multi-line error: %v", err)
			}
		})
	})
}
