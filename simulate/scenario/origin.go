package scenario

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/blake3"

	"troupe/simulate"
)

// Origin returns what a record needs so that Again reads the same scenario: its text, the keys that were
// set, and the digests of the files that it reads.
func (s *Scenario) Origin() (simulate.Origin, error) {
	o := simulate.Origin{File: s.file.path, Text: string(s.file.source), Set: s.set}
	for _, path := range s.inputs() {
		digest, err := digestOf(path)
		if err != nil {
			return o, err
		}
		o.Inputs = append(o.Inputs, simulate.Input{Path: path, Digest: digest})
	}
	return o, nil
}

// Again reads the scenario of a record. Files that are missing or were changed since are errors.
func Again(o simulate.Origin, facts FactsOf) (*Scenario, error) {
	for _, in := range o.Inputs {
		digest, err := digestOf(in.Path)
		if err != nil {
			return nil, fmt.Errorf("a file of the record cannot be read: %w; replay it in the folder in which it was "+
				"recorded", err)
		}
		if digest != in.Digest {
			return nil, fmt.Errorf("%s was changed since the record: its digest was %.16s and is %.16s; bring back "+
				"the file of then", in.Path, in.Digest, digest)
		}
	}
	return Parse(o.File, []byte(o.Text), facts, o.Set...)
}

// inputs returns the paths of the files that the scenario reads.
func (s *Scenario) inputs() (paths []string) {
	add := func(path string) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(s.file.path), path)
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, n := range s.file.Nodes {
		for _, d := range n.Devices {
			if _, err := s.file.profile(d.Kind); err == nil && isFile(d.Kind) {
				add(d.Kind)
			}
		}
	}
	for _, m := range s.file.Models {
		if m.Folder != "" {
			add(filepath.Join(m.Folder, "config.json"))
		}
	}
	for _, l := range s.file.Workload {
		if l.Trace != "" {
			add(l.Trace)
		}
	}
	return paths
}

// isFile reports whether a kind of device is the name of a file with a profile.
func isFile(kind string) bool { return filepath.Ext(kind) == ".yaml" || filepath.Ext(kind) == ".yml" }

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := blake3.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
