package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// measurement tries changes.
type measurement struct {
	binary, hash string // of the test of the simulation
	changes      []change
	parts        []part
	own          *own
	state        *state
}

// outcome is what became of a change.
type outcome struct {
	change change
	number int
	course
	reached bool
	untried bool   // in the runs
	own     string // test of the changed package that has found it
}

// prepare builds the test with the first changes of a queue and finds out what its runs reach.
func prepare(o options, queue []change) (m *measurement, err error) {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, err
	}
	m = &measurement{binary: simulationTest(dir)}
	if m.changes, err = build(dir, queue, o.count); err != nil {
		return nil, err
	}
	m.own = &own{dir: dir, changes: m.changes, built: make(map[string]*ownTest)}
	if m.hash, err = hashOf(m.binary); err != nil {
		return nil, err
	}
	if !o.runs {
		m.state, err = readState(dir)
		return m, err
	}
	if m.state, err = readState(dir); err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%s %d", m.hash, o.seeds)
	if m.parts = m.state.Parts[key]; m.parts != nil {
		return m, nil
	}
	fmt.Fprintln(os.Stderr, "running all tests without a change")
	if m.parts, err = survey(m.binary, o.seeds, o.workers); err != nil {
		return nil, err
	}
	return m, m.state.update(func() { m.state.Parts[key] = m.parts })
}

// all tries the changes, several at a time.
func (m *measurement) all(o options) (outcomes []outcome, err error) {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		next = make(chan int)
	)
	for range o.workers {
		wait.Go(func() {
			for n := range next {
				result, problem := m.one(o, n)
				mu.Lock()
				if problem != nil {
					err = errors.Join(err, problem)
					fmt.Fprintln(os.Stderr, "mutate:", problem)
				}
				outcomes = append(outcomes, result)
				fmt.Println(result)
				mu.Unlock()
			}
		})
	}
	for n := 1; n <= len(m.changes); n++ {
		if len(o.only) == 0 || slices.Contains(o.only, n) {
			next <- n
		}
	}
	close(next)
	wait.Wait()
	slices.SortFunc(outcomes, func(a, b outcome) int { return a.number - b.number })
	return outcomes, err
}

// one tries one change, unless its outcome is known.
func (m *measurement) one(o options, n int) (r outcome, err error) {
	s := m.state
	r = outcome{change: m.changes[n-1], number: n}
	r.reached = slices.ContainsFunc(m.parts, func(p part) bool { return p.Reach[n] })
	key := fmt.Sprintf("%s %d %s", m.hash, o.seeds, r.change)
	c, ok := known(s, s.Course, key)
	if ok && o.runs && c.By == timeIsUp && c.Took <= o.limit { // it was tried with a lower limit
		ok = false
	}
	if !ok && o.keep {
		c, ok = s.found(r.change)
	}
	if r.untried = !ok && !o.runs; !ok && o.runs {
		if c, err = try(m.binary, n, m.parts, o.limit); err != nil {
			return r, err
		}
		if err := s.update(func() { s.Course[key] = c }); err != nil {
			return r, err
		}
	}
	if r.course = c; c.Found || !o.own {
		return r, nil
	}
	t := m.own.test(testedBy(r.change.path))
	key = t.hash + " " + r.change.String()
	if r.own, ok = known(s, s.Own, key); ok {
		return r, nil
	}
	if r.own, err = m.own.try(n); err != nil {
		r.own = ""
		return r, fmt.Errorf("%s: %w", r.change, err)
	}
	return r, s.update(func() { s.Own[key] = r.own })
}
