package main

import (
	"path/filepath"
	"strings"
	"testing"

	"troupe/testkit"
)

// TestDeploymentNames checks that deployment names may have capitals, and that GGUF files get their
// own error.
func TestDeploymentNames(t *testing.T) {
	for deployment, want := range map[string]string{
		"{name: Qwen3-0.6B, path: " + testkit.Model() + "}": "",
		"{name: 'a b', path: " + testkit.Model() + "}":      `"a b" is not a valid deployment name`,
		"{name: a, path: model.GGUF}":                       "GGUF files are not supported",
	} {
		path := filepath.Join(t.TempDir(), "node.yaml")
		writeFile(t, filepath.Dir(path), "node.yaml", "deployments: ["+deployment+"]\n")
		_, err := readFile(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", deployment, err)
		}
	}
}
