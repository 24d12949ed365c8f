package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// kind is a kind of change.
type kind string

// The kinds of changes.
const (
	dropRow     kind = "row"     // a row of a transition table is dropped
	dropGuard   kind = "guard"   // a row of a transition table loses its guard
	changeNext  kind = "next"    // a row of a transition table enters another state
	dropEffect  kind = "effect"  // a machine's effect is dropped
	dropSend    kind = "send"    // a message, watch or stop is not sent
	dropRelease kind = "release" // something is not released, cancelled or forgotten
	swap        kind = "swap"    // two effects or calls are swapped
	acceptStale kind = "stale"   // a comparison of terms, incarnations, attempts or revisions is dropped
	dropCheck   kind = "check"   // a condition under which a function returns early is dropped, or half of one
)

var kinds = []kind{dropRow, dropGuard, changeNext, dropEffect, dropSend, dropRelease, swap, acceptStale, dropCheck}

// change is one small change to a file, which package mutant can put into effect.
type change struct {
	path       string // of the file
	line, last int
	kind       kind
	what       string
	edits      []edit
}

func (c change) String() string { return fmt.Sprintf("%s:%d %s", c.path, c.line, c.what) }

// edit inserts text into a file. "#" in the text stands for the number of the change.
type edit struct {
	offset int
	text   string
	ends   bool // after the changed code, not before it
	length int  // of the changed code
}

// around returns the edits that put text before and after a piece of code.
func around(from, to int, before, after string) []edit {
	return []edit{{from, before, false, to - from}, {to, after, true, to - from}}
}

// apply returns the file at a path with its hooks and numbered changes to it; a file has either hooks or
// changes. Lines keep their numbers.
func apply(path string, changes map[int]change) ([]byte, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for _, h := range hooks {
		if h.path != path {
			continue
		}
		if bytes.Count(source, []byte(h.after)) != 1 {
			return nil, fmt.Errorf("%s: there is no %q", path, h.after)
		}
		source = bytes.Replace(source, []byte(h.after), []byte(h.after+h.text), 1)
	}
	return insert(source, changes), nil
}

func insert(source []byte, changes map[int]change) []byte {
	type numbered struct {
		edit
		n int
	}
	var all []numbered
	for n, c := range changes {
		for _, e := range c.edits {
			all = append(all, numbered{e, n})
		}
	}
	// Insertions at the same place must nest: what ends is before what starts.
	slices.SortFunc(all, func(a, b numbered) int {
		switch {
		case a.offset != b.offset:
			return cmp.Compare(a.offset, b.offset)
		case a.ends != b.ends:
			if a.ends {
				return -1
			}
			return 1
		case a.ends:
			return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(b.n, a.n))
		default:
			return cmp.Or(cmp.Compare(b.length, a.length), cmp.Compare(a.n, b.n))
		}
	})
	var out strings.Builder
	done := 0
	for _, e := range all {
		_, _ = out.Write(source[done:e.offset]) // a builder takes all
		out.WriteString(strings.ReplaceAll(e.text, "#", fmt.Sprint(e.n)))
		done = e.offset
	}
	_, _ = out.Write(source[done:])
	return importMutant(out.String())
}

// importMutant adds the import to the line of the package clause.
func importMutant(source string) []byte {
	start := 0
	if !strings.HasPrefix(source, "package ") {
		start = strings.Index(source, "\npackage ") + 1
	}
	end := start + strings.IndexByte(source[start:], '\n')
	return []byte(source[:end] + `; import "troupe/tools/mutate/mutant"` + source[end:])
}
