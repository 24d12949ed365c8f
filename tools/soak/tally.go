package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tally counts actions by kind, and keeps the last error of each kind.
type tally struct {
	mu     sync.Mutex
	done   map[string]int
	failed map[string]int
	errs   map[string]error // last error
}

func newTally() *tally {
	return &tally{done: map[string]int{}, failed: map[string]int{}, errs: map[string]error{}}
}

func (t *tally) count(kind string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.done[kind]++
		return
	}
	t.failed[kind]++
	t.errs[kind] = err
}

func (t *tally) kinds() []string {
	all := maps.Clone(t.done)
	maps.Copy(all, t.failed)
	return slices.Sorted(maps.Keys(all))
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, kind := range t.kinds() {
		fmt.Fprintf(&b, "%-28s %7d done %5d failed", kind, t.done[kind], t.failed[kind])
		if err := t.errs[kind]; err != nil {
			fmt.Fprintf(&b, ", last: %v", err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// check returns an error if the run does not cover a kind of request, because fewer than nine in
// ten of them succeeded.
func (t *tally) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var wrong []error
	for _, kind := range t.kinds() {
		if t.done[kind] < 9*t.failed[kind] || t.done[kind] == 0 {
			wrong = append(wrong, fmt.Errorf("%s: %d done, %d failed, last: %w",
				kind, t.done[kind], t.failed[kind], t.errs[kind]))
		}
	}
	return errors.Join(wrong...)
}
