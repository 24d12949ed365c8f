package table_test

import (
	"slices"
	"sync"
	"testing"

	"troupe/core/table"
)

type (
	state uint8
	event uint8
)

func (s state) String() string { return [...]string{"idle", "running", "ended"}[s] }
func (e event) String() string { return [...]string{"start", "stop"}[e] }

const (
	idle state = iota
	running
	ended
)

const (
	start event = iota
	stop
)

type row = table.Row[state, event, func(int) bool, func()]

func rows() []row {
	negative := table.Guard[func(int) bool]{"negative", func(n int) bool { return n < 0 }}
	return []row{
		{From: []state{idle}, On: start, When: negative},
		{From: []state{idle, running}, On: start, To: running, Do: func() {}, Does: "run"},
		{From: []state{running}, On: stop, When: negative, To: ended, Do: func() {}},
		{From: []state{running}, On: stop, To: table.Same, Do: func() {}},
	}
}

// TestFind checks that the first row whose state, event and guard fit is found.
func TestFind(t *testing.T) {
	all := rows()
	of := table.New("find", all)
	for _, tc := range []struct {
		in   state
		on   event
		n    int
		want int // -1: none
	}{
		{idle, start, -1, 0}, {idle, start, 1, 1}, {running, start, -1, 1}, {running, stop, -1, 2},
		{running, stop, 1, 3},
		{idle, stop, 1, -1}, {ended, stop, -1, -1}, {idle, stop + 1, 1, -1}, {table.Same, stop, 1, -1},
	} {
		got := of.Find(tc.in, tc.on, func(holds func(int) bool) bool { return holds(tc.n) })
		if tc.want < 0 && got != nil || tc.want >= 0 && got != &all[tc.want] {
			t.Errorf("state %d, event %d, %d: got %v, want row %d", tc.in, tc.on, tc.n, got, tc.want)
		}
	}
}

// TestReached checks that a table remembers in which states each row has applied, also if machines
// run at the same time, and which states were entered.
func TestReached(t *testing.T) {
	of := table.New("reached", rows())
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 100 {
				of.Find(running, start, func(func(int) bool) bool { return true })
				of.Find(running, stop, func(func(int) bool) bool { return true })
			}
		})
	}
	wait.Wait()
	all := table.Reached()
	got := all[slices.IndexFunc(all, func(r table.Reach) bool { return r.Table == "reached" })]
	for i, want := range [][]string{nil, {"running"}, {"running"}, nil} {
		if !slices.Equal(got.Lines[i].In, want) {
			t.Errorf("row %v has applied in %v, want %v", got.Lines[i], got.Lines[i].In, want)
		}
	}
	if want := []table.State{{"idle", false}, {"running", true}, {"ended", true}}; !slices.Equal(got.States, want) {
		t.Errorf("states %v, want %v", got.States, want)
	}
	if l := got.Lines[0]; !l.Ignores || l.String() != "idle start (negative)" {
		t.Errorf("row 0 is described as %v, ignores %v", l, l.Ignores)
	}
}

// TestNamesAreUnique checks that no two tables have the same name.
func TestNamesAreUnique(t *testing.T) {
	table.New("unique", rows())
	defer func() {
		if recover() == nil {
			t.Error("two tables have the same name")
		}
	}()
	table.New("unique", rows())
}

// TestForget checks that a table forgets what was reached, and remembers what is reached afterwards.
func TestForget(t *testing.T) {
	of := table.New("forgets", rows())
	of.Find(running, start, func(func(int) bool) bool { return true })
	table.Forget()
	of.Find(running, stop, func(func(int) bool) bool { return true })
	for i, want := range []int{0, 0, 1, 0} {
		if got := len(of.Lines()[i].In); got != want {
			t.Errorf("row %d has applied in %d states, want %d", i, got, want)
		}
	}
}
