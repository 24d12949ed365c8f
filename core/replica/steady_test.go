package replica

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSteady checks that RunSteady leaves the machine as the events of each step do. Reports between
// the steps are made in both, as LastReport says.
func TestSteady(t *testing.T) {
	var longest int
	rapid.Check(t, func(t *rapid.T) {
		atOnce, each := newSteady(t), (*steady)(nil)
		each = atOnce.twin()
		for i := range rapid.IntRange(1, 20).Draw(t, "events") {
			for j := range rapid.IntRange(0, 2).Draw(t, "arrivals") {
				id, prompt := fmt.Sprint("r", i, j), rapid.IntRange(1, 20).Draw(t, "prompt")
				most := rapid.IntRange(1, 60).Draw(t, "output")
				atOnce.submit(id, prompt, most)
				each.submit(id, prompt, most)
			}
			took := time.Duration(rapid.IntRange(1, 200).Draw(t, "ms")) * time.Millisecond
			atOnce.step(took)
			each.step(took)
			if most := atOnce.m.SteadySteps(); most > 0 {
				n := rapid.IntRange(1, most).Draw(t, "steps")
				longest = max(longest, n)
				atOnce.run(n, took)
				for range n {
					each.step(took)
				}
			}
			atOnce.compare(t, each)
		}
	})
	if longest < 20 {
		t.Errorf("the longest run had %d steps", longest)
	}
}

// steady is a driver whose steps sample the same token and whose reports are made.
type steady struct {
	*driver
	cfg    Config
	blocks int
	report time.Time // when the report timer fires; zero: it is not set
	last   time.Time // when it fired last
}

func newSteady(t *rapid.T) *steady {
	s := &steady{cfg: Config{MaxSequences: rapid.IntRange(1, 4).Draw(t, "places"), MaxWaiting: 8, Router: true},
		blocks: rapid.IntRange(25, 60).Draw(t, "blocks")}
	s.start()
	return s
}

func (s *steady) twin() *steady {
	t := &steady{cfg: s.cfg, blocks: s.blocks}
	t.start()
	return t
}

func (s *steady) start() {
	s.driver = newDriver(s.cfg)
	s.see = func(e Effect) {
		if timer, ok := e.(SetTimer); ok && timer.Timer == ReportTimer {
			s.report = s.now.Add(timer.After)
		}
	}
	s.startup(Model{Lease: "m-0", Blocks: s.blocks, ContextTokens: 90})
}

func (s *steady) submit(id string, prompt, most int) {
	q := submission(id, prompt, 0, most, "")
	q.Stops = nil
	s.do(s.m.Submit(q, s.now))
}

// step ends the step in flight, after the report that is due before.
func (s *steady) step(took time.Duration) {
	end := s.now.Add(took)
	if s.fire(end.Add(-1)); s.m.InFlight() {
		s.now = end
		s.do(s.m.StepDone(s.m.current.step, s.sampled(), nil, s.now))
		s.fire(end)
	}
}

// run ends steps at once, with the last of the reports between them.
func (s *steady) run(n int, took time.Duration) {
	ends := make([]time.Time, n)
	for i := range ends {
		ends[i] = s.now.Add(time.Duration(i+1) * took)
	}
	last, before := LastReport(s.report, ends, ends[n-1]), 0
	for ; !last.IsZero() && before < n && !ends[before].After(last); before++ {
	}
	s.runTo(ends[:before])
	if !last.IsZero() {
		s.report = last
		s.fire(last)
	}
	s.runTo(ends[before:])
}

func (s *steady) runTo(ends []time.Time) {
	if len(ends) > 0 {
		s.now = ends[len(ends)-1]
		s.do(s.m.RunSteady(ends, s.sampled()))
	}
}

// fire makes the report that is due until a time.
func (s *steady) fire(until time.Time) {
	if s.report.IsZero() || s.report.After(until) {
		return
	}
	s.now, s.last, s.report = s.report, s.report, time.Time{}
	s.do(s.m.Fired(ReportTimer, 0, s.now))
	s.now = until
}

func (s *steady) sampled() (tokens []uint32) {
	for _, e := range s.m.current.entries {
		if e.Sample {
			tokens = append(tokens, uint32(len(e.ID)))
		}
	}
	return tokens
}

func (s *steady) compare(t *rapid.T, with *steady) {
	if !s.last.Equal(with.last) || !s.report.Equal(with.report) {
		t.Fatalf("reported at %v, next at %v; want %v and %v", s.last, s.report, with.last, with.report)
	}
	a, b := *s.m, *with.m
	if !reflect.DeepEqual(a.announcer.Snapshot(), b.announcer.Snapshot()) {
		t.Fatal("the announced blocks differ")
	}
	for _, m := range []*Machine{&a, &b} {
		m.effects, m.spare, m.raised, m.turnCause, m.announcer = nil, nil, nil, event{}, nil
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("the machines differ: %+v\nwant %+v", a, b)
	}
}
