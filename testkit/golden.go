package testkit

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// Golden is a reference output: greedy decoding in float64.
type Golden struct {
	Prompt    string   `json:"prompt"`
	PromptIDs []uint32 `json:"prompt_ids"`
	OutputIDs []uint32 `json:"output_ids"`
	Text      string   `json:"text"`
}

// JSONLines reads a file with one JSON value per line.
func JSONLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d lines, %v", path, len(all), err)
	}
	return all
}
