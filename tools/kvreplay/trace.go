package main

import (
	"os"
	"path/filepath"
	"strconv"

	"troupe/core/kv"
	"troupe/workload"
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
	trace, err := workload.Open(path, workload.Options{})
	if err != nil {
		return nil, err
	}
	for r, err := range trace {
		if err != nil {
			return nil, err
		}
		hashes := make([]kv.Hash, len(r.Prefix))
		for i, b := range r.Prefix {
			hashes[i] = kv.Root("trace", strconv.FormatUint(b, 10), nil)
		}
		prompts = append(prompts, hashes)
	}
	return prompts, nil
}
