package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"troupe/core/kv"
)

// tracePath returns the path of the trace in the folder TROUPE_SHARED, or next to the repository.
func tracePath() string {
	dir := os.Getenv("TROUPE_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "shared")
	}
	return filepath.Join(dir, "data", "traces", "mooncake", "conversation_first30min.jsonl")
}

// readTrace returns the blocks of each prompt, in order of arrival. A block's number in the trace
// identifies everything up to its end.
func readTrace(path string) (prompts [][]kv.Hash, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line struct {
			Blocks []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("trace %s, line %d: %w", path, len(prompts)+1, err)
		}
		hashes := make([]kv.Hash, len(line.Blocks))
		for i, b := range line.Blocks {
			hashes[i] = kv.Root("trace", strconv.FormatUint(b, 10), nil)
		}
		prompts = append(prompts, hashes)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return prompts, nil
}
