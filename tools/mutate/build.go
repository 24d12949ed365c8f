package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// build builds the test of the simulation with the changes, numbered from 1. Changes that do not
// compile are replaced by the next ones of the queue. It returns the changes that are in the test.
func build(dir string, queue []change, count int) (in []change, err error) {
	in = append(in, queue[:min(count, len(queue))]...)
	rest := queue[len(in):]
	for range 20 {
		if err := writeOverlay(dir, in); err != nil {
			return nil, err
		}
		out, err := compile(dir, simulation, simulationTest(dir))
		if err == nil {
			return in, nil
		}
		bad := culprits(out, in)
		if len(bad) == 0 {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
		for i := range in {
			if !bad[i] {
				continue
			}
			fmt.Fprintln(os.Stderr, "does not compile:", in[i])
			if len(rest) == 0 {
				return nil, fmt.Errorf("no other changes are left")
			}
			in[i], rest = rest[0], rest[1:]
		}
	}
	return nil, fmt.Errorf("the changes do not compile")
}

// simulation is the folder of the simulation.
const simulation = "testkit/dst"

func simulationTest(dir string) string { return filepath.Join(dir, "dst.test") }

// overlay is the file that lets the go command read the changed files.
const overlay = "overlay.json"

// compile builds the test of a folder with the changes of the overlay.
func compile(dir, folder, binary string) (out []byte, err error) {
	return exec.Command("go", "test", "-c", "-p", "2", "-ldflags=-w -s", "-overlay", filepath.Join(dir, overlay),
		"-o", binary, "./"+folder).CombinedOutput()
}

// writeOverlay writes the changed files and the overlay.
func writeOverlay(dir string, changes []change) error {
	byPath := make(map[string]map[int]change)
	for _, h := range hooks {
		byPath[h.path] = make(map[int]change)
	}
	for i, c := range changes {
		if byPath[c.path] == nil {
			byPath[c.path] = make(map[int]change)
		}
		byPath[c.path][i+1] = c
	}
	replace := make(map[string]string)
	for path, of := range byPath {
		changed, err := apply(path, of)
		if err != nil {
			return err
		}
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		replace[full] = filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(replace[full], changed, 0o600); err != nil {
			return err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, overlay), data, 0o600)
}

// hashOf returns a hash of a file.
func hashOf(path string) (hash string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), cmp.Or(err, f.Close())
}

var position = regexp.MustCompile(`(?m)^(?:\./)?([\w./-]+\.go):(\d+)(?::\d+)?: `)

// culprits returns the indices of the changes in the lines that the compiler complains about.
func culprits(out []byte, changes []change) map[int]bool {
	bad := make(map[int]bool)
	for _, m := range position.FindAllSubmatch(out, -1) {
		line, _ := strconv.Atoi(string(m[2])) // digits
		for i, c := range changes {
			if c.path == filepath.Clean(string(m[1])) && c.line <= line && line <= c.last {
				bad[i] = true
			}
		}
	}
	return bad
}
