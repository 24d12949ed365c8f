// Package mutant is imported by code that tools/mutate has changed. The changes are numbered from
// 1, and the environment variable MUTANT selects the one that is in effect.
package mutant

import (
	"os"
	"slices"
	"strconv"
)

var active, _ = strconv.Atoi(os.Getenv("MUTANT")) // 0: no change is in effect

var reached bool

// Reached is what the process writes to standard error when it first runs the changed code.
const Reached = "mutant reached\n"

// On reports whether a change is in effect.
func On(n int) bool {
	if n != active {
		return false
	}
	if !reached {
		reached = true
		_, _ = os.Stderr.WriteString(Reached) // without it, the change is listed as not reached
	}
	return true
}

// Zero returns the zero value instead of v if the change is in effect.
func Zero[T any](n int, v T) T {
	var zero T
	return Pick(n, zero, v)
}

// Pick returns changed instead of v if the change is in effect.
func Pick[T any](n int, changed, v T) T {
	if On(n) {
		return changed
	}
	return v
}

// Without returns all without element i if the change is in effect.
func Without[S ~[]E, E any](n, i int, all S) S {
	if On(n) {
		return slices.Delete(slices.Clone(all), i, i+1)
	}
	return all
}

// Swapped returns all with elements i and i+1 swapped if the change is in effect.
func Swapped[S ~[]E, E any](n, i int, all S) S {
	if On(n) {
		all = slices.Clone(all)
		all[i], all[i+1] = all[i+1], all[i]
	}
	return all
}
