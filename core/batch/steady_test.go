package batch

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// TestSteady checks that RunSteady leaves the scheduler and its pool as Plan and Done do, and that it
// runs as far as it may.
func TestSteady(t *testing.T) {
	var longest int
	rapid.Check(t, func(t *rapid.T) {
		s := newTwins(t)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			for range rapid.IntRange(0, 2).Draw(t, "arrivals") {
				s.submit(t)
			}
			if most := s.step(t); most > 0 {
				n := rapid.IntRange(1, most).Draw(t, "steps")
				s.runSteady(n)
				s.compare(t, fmt.Sprintf("after %d of %d steady steps", n, most))
				longest = max(longest, n)
			}
		}
	})
	if longest < 20 {
		t.Errorf("the longest run had %d steps", longest)
	}
}

// twins are two schedulers. One ends steady steps at once, and the other one by one.
type twins struct {
	at, each *Scheduler
	inFlight [2]Step
	now      time.Time
	requests int
}

func newTwins(t *rapid.T) *twins {
	limits := Limits{MaxSequences: rapid.IntRange(1, 5).Draw(t, "places"), MaxWaiting: 8,
		StepTokens: rapid.IntRange(8, 32).Draw(t, "budget"), ContextTokens: 96}
	size := rapid.SampledFrom([]int{4, 5, 16}).Draw(t, "block")
	blocks := limits.ContextTokens/size + rapid.IntRange(1, 12).Draw(t, "blocks")
	return &twins{at: New(limits, kv.NewPool(blocks, size)), each: New(limits, kv.NewPool(blocks, size)),
		now: time.Unix(0, 0)}
}

// submit submits a request that may share the beginning of its prompt with others, and its client.
func (s *twins) submit(t *rapid.T) {
	s.requests++
	prompt := make([]uint32, rapid.IntRange(1, 40).Draw(t, "prompt"))
	for i := range prompt {
		prompt[i] = uint32(i / 8)
	}
	prompt[len(prompt)-1] = uint32(rapid.IntRange(0, 2).Draw(t, "last"))
	r := Request{ID: fmt.Sprint("r", s.requests), Class: Standard, Arrived: s.now, Prompt: prompt,
		MaxOutput: rapid.IntRange(1, 60).Draw(t, "output"),
		Client:    rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "client"),
		Weight:    rapid.SampledFrom([]float64{0, 3}).Draw(t, "weight")}
	s.at.Submit(r)
	s.each.Submit(r)
}

// step ends the step in flight and plans the next one. It returns how many steps are steady.
func (s *twins) step(t *rapid.T) int {
	s.now = s.now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
	for i, twin := range []*Scheduler{s.at, s.each} {
		twin.Done(s.inFlight[i].Entries, sampled(s.inFlight[i].Entries))
		s.inFlight[i], _ = twin.Plan(s.now)
	}
	s.compare(t, "after a step")
	return s.at.SteadySteps(s.inFlight[0].Entries)
}

func (s *twins) runSteady(n int) {
	end := s.now.Add(time.Duration(n) * time.Second)
	s.inFlight[0] = Step{Entries: s.at.RunSteady(sampled(s.inFlight[0].Entries), n, end)}
	for range n {
		s.now = s.now.Add(time.Second)
		s.each.Done(s.inFlight[1].Entries, sampled(s.inFlight[1].Entries))
		s.inFlight[1], _ = s.each.Plan(s.now)
	}
}

func (s *twins) compare(t *rapid.T, when string) {
	t.Helper()
	e, c := s.at.pool.Changes()
	e2, c2 := s.each.pool.Changes()
	if !reflect.DeepEqual(e, e2) || !reflect.DeepEqual(c, c2) {
		t.Fatalf("%s: blocks changed %v %v, want %v %v", when, e, c, e2, c2)
	}
	if !reflect.DeepEqual(s.at, s.each) {
		t.Fatalf("%s: the schedulers differ: %d and %d sequences run, %+v and %+v", when, s.at.Running(),
			s.each.Running(), s.at.pool.Stats(), s.each.pool.Stats())
	}
	if !reflect.DeepEqual(s.inFlight[0].Entries, s.inFlight[1].Entries) {
		t.Fatalf("%s: the entries are %+v, want %+v", when, s.inFlight[0].Entries, s.inFlight[1].Entries)
	}
}

// sampled returns a token for each entry that samples, the same in each step.
func sampled(entries []Entry) (tokens []uint32) {
	for _, e := range entries {
		if e.Sample {
			tokens = append(tokens, uint32(len(e.ID)))
		}
	}
	return tokens
}
