package main

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strings"
)

// failures returns the tests that failed in the output of go test, as package.Test, and the packages
// that failed without one: they do not build, or ended early.
func failures(out io.Reader) (all []string, err error) {
	found := make(map[string]bool)
	var tests []string // that failed in the package whose output this is
	in := bufio.NewScanner(out)
	in.Buffer(nil, 64<<20) // a log of a test may have long lines
	for in.Scan() {
		line := in.Text()
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 3 && strings.HasPrefix(strings.TrimSpace(line), "--- FAIL: "):
			tests = append(tests, fields[2])
		case len(fields) >= 2 && fields[0] == "ok" && strings.HasPrefix(line, "ok  \t"):
			tests = nil
		case len(fields) >= 2 && strings.HasPrefix(line, "FAIL\t"):
			for _, test := range leaves(tests) {
				found[fields[1]+"."+test] = true
			}
			if len(tests) == 0 {
				found[fields[1]] = true
			}
			tests = nil
		}
	}
	return slices.Sorted(maps.Keys(found)), in.Err()
}

// leaves returns the tests that have no failed subtest.
func leaves(tests []string) (all []string) {
	for _, test := range tests {
		if !slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, test+"/") }) {
			all = append(all, test)
		}
	}
	return all
}
