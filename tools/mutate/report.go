package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

func (o outcome) String() string {
	how, by := "SURVIVED, "+o.differs(), ""
	switch {
	case o.Found:
		how, by = fmt.Sprintf("run %d, %s", o.Runs, o.In), o.By
	case o.own != "":
		how, by = "package, "+o.differs(), o.own
	}
	return fmt.Sprintf("%3d %-32s %5.1fs %-7s %s  %s", o.number, how, o.Took.Seconds(), o.change.kind, o.change, by)
}

// summary writes the outcomes as tables in Markdown.
func summary(w io.Writer, seed uint64, parts []part, all []outcome) {
	runs := 0
	for _, p := range parts {
		runs += p.Runs
	}
	var byRun, byOwn, survived []outcome
	truncated := 0
	for _, o := range all {
		if o.truncated() != "" {
			truncated++
		}
		switch {
		case o.Found:
			byRun = append(byRun, o)
		case o.own != "":
			byOwn = append(byOwn, o)
		default:
			survived = append(survived, o)
		}
	}
	fmt.Fprintf(w, "Of %d changes of seed %d, %d were found by one of %d runs, %d more by the tests of the changed "+
		"package, and %d by none.\n", len(all), seed, len(byRun), runs, len(byOwn), len(survived))
	if truncated > 0 {
		fmt.Fprintf(w, "The time was up before all runs that reach them were tried for %d of those that no run found; "+
			"raise -limit.\n", truncated)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "| found within | changes |\n| ---: | ---: |\n")
	for _, n := range []int{1, 3, 10, 30, 100, 300} {
		within := len(slices.DeleteFunc(slices.Clone(byRun), func(o outcome) bool { return o.Runs > n }))
		if fmt.Fprintf(w, "| %d | %d |\n", n, within); within == len(byRun) {
			break
		}
	}
	fmt.Fprintf(w, "\n| change | found by run | in | property |\n| --- | ---: | --- | --- |\n")
	for _, o := range byRun {
		fmt.Fprintf(w, "| `%s` | %d | %s | %s |\n", cut(o.change.String(), 100), o.Runs, o.In, cut(o.By, 90))
	}
	fmt.Fprintf(w, "\n| change | in the runs | test of its package |\n| --- | --- | --- |\n")
	for _, o := range slices.Concat(byOwn, survived) {
		test := o.own
		if test == "" {
			test = "**none**"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", cut(o.change.String(), 100), o.differs(), test)
	}
}

// differs returns how the runs with a survivor differ from those without it, as far as they were tried.
func (o outcome) differs() string {
	switch {
	case o.untried:
		return "not tried"
	case !o.reached:
		return "not reached"
	case !o.Differs:
		return "no run differs" + o.truncated()
	}
	return "runs differ" + o.truncated()
}

// truncated returns a note if the limit ended the trial before all runs that reach the change.
func (o outcome) truncated() string {
	if o.Found || o.By != timeIsUp {
		return ""
	}
	return fmt.Sprintf(" (%s after %d runs)", timeIsUp, o.Tried)
}

// cut returns text for a cell of a table.
func cut(s string, length int) string {
	s = strings.ReplaceAll(s, "|", `\|`)
	if r := []rune(s); len(r) > length {
		return string(r[:length-1]) + "…"
	}
	return s
}
