package main

import (
	"fmt"
	"io"
	"strings"
)

// summary writes the outcomes as tables in Markdown.
func summary(w io.Writer, seed uint64, all []outcome) {
	found := 0
	for _, o := range all {
		if o.found {
			found++
		}
	}
	fmt.Fprintf(w, "Of %d changes of seed %d, %d were found.\n\n", len(all), seed, found)
	fmt.Fprintf(w, "| change | found by run | property |\n| --- | ---: | --- |\n")
	for _, o := range all {
		if o.found {
			fmt.Fprintf(w, "| %s | %d | %s |\n", cell80(o.change.String()), o.runs, cell80(o.by))
		}
	}
	fmt.Fprintf(w, "\n| survivor | kind | runs | tests of its package |\n| --- | --- | --- | --- |\n")
	for _, o := range all {
		if o.found {
			continue
		}
		own := "pass"
		if o.own != "" {
			own = "fail: " + o.own
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", cell80(o.change.String()), o.change.kind, o.course(), own)
	}
}

// course says how the runs with a survivor differ from those without it.
func (o outcome) course() string {
	switch {
	case !o.reached:
		return "not reached"
	case !o.differs:
		return "no run differs"
	}
	return "runs differ"
}

// cell80 returns text for a cell of a table.
func cell80(s string) string {
	s = strings.ReplaceAll(s, "|", `\|`)
	if r := []rune(s); len(r) > 110 {
		return string(r[:109]) + "…"
	}
	return s
}
