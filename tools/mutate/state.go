package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// state is what is known so far, in a file, so that a run of this tool can be continued.
type state struct {
	mu     sync.Mutex
	file   string
	Parts  map[string][]part // by hash of the test of the simulation
	Course map[string]course // by that hash and change
	Own    map[string]string // by hash of the package's test and change: the test that fails; empty: none
}

func readState(dir string) (*state, error) {
	s := &state{file: filepath.Join(dir, "state.json"), Parts: make(map[string][]part),
		Course: make(map[string]course), Own: make(map[string]string)}
	data, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(data, s)
}

// update changes the state and writes its file.
func (s *state) update(change func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	data, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// known returns a value of the state.
func known[V any](s *state, all map[string]V, key string) (v V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok = all[key]
	return v, ok
}

// found returns how any build of the test has found a change.
func (s *state) found(of change) (course, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.Course)) {
		if c := s.Course[key]; c.Found && strings.HasSuffix(key, " "+of.String()) {
			return c, true
		}
	}
	return course{}, false
}
