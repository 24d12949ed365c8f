package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed equivalent.txt
var equivalentText string

// withoutEquivalent returns the changes that are not listed as equivalent.
func withoutEquivalent(all []change, text string) ([]change, error) {
	listed := make(map[string]bool)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 {
			return nil, fmt.Errorf("equivalent.txt: %q is not a file, a change and a reason", line)
		}
		listed[parts[0]+" "+parts[1]] = true
	}
	return slices.DeleteFunc(all, func(c change) bool { return listed[c.path+" "+c.what] }), nil
}
