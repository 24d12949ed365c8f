package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// build builds the test of a package with the changes, numbered from 1. Changes that do not compile
// are replaced by the next ones of the queue. It returns the changes that are in the test.
func build(dir, pkg, binary string, queue []change, count int) (in []change, err error) {
	in = append(in, queue[:min(count, len(queue))]...)
	rest := queue[len(in):]
	for range 20 {
		out, err := compile(dir, pkg, binary, in)
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

// compile builds the test with changes.
func compile(dir, pkg, binary string, changes []change) (out []byte, err error) {
	byPath := make(map[string]map[int]change)
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
			return nil, err
		}
		full, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		replace[full] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(replace[full], changed, 0o600); err != nil {
			return nil, err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return nil, err
	}
	return exec.Command("go", "test", "-c", "-p", "2", "-ldflags=-w -s", "-overlay", file, "-o", binary, pkg).
		CombinedOutput()
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
