package batch

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/kv"
)

// Scheduler plans the steps of one replica. It is not safe for concurrent use.
type Scheduler struct {
	limits   Limits
	pool     *kv.Pool
	byID     map[string]*sequence
	running  []*sequence // by class and age
	waiting  []*sequence // by class and age; nextWaiting is served first
	held     int         // running sequences that are held and keep their places
	reserved int         // places reserved for sequences that migrate here
	arrivals uint64
	latest   time.Time // latest arrival
	adapters adapters
	shares   shares
}

// New returns a scheduler over a pool that only it allocates from.
func New(limits Limits, pool *kv.Pool) *Scheduler {
	limits.StepTokens = max(limits.StepTokens, limits.MaxSequences)
	return &Scheduler{limits: limits, pool: pool, byID: make(map[string]*sequence), shares: newShares()}
}

// RaiseContextLimit raises the length limit of sequences after the pool has grown. It never lowers
// the limit.
func (s *Scheduler) RaiseContextLimit(contextTokens int) {
	s.limits.ContextTokens = max(s.limits.ContextTokens, contextTokens)
}

// Submit queues a request and returns how many requests of the queue precede it by class and age. A
// request that has waited or has output was accepted before, and is accepted even if the queue is
// full.
func (s *Scheduler) Submit(r Request) (ahead int, refusal *Refusal) {
	if refusal = r.check(s.limits); refusal != nil {
		return 0, refusal
	}
	if refusal = s.adapters.check(r); refusal != nil {
		return 0, refusal
	}
	if _, ok := s.byID[r.ID]; ok {
		return 0, &Refusal{Duplicate, "request " + r.ID + " already exists"}
	}
	if len(s.byID) >= s.limits.MaxSequences+s.limits.MaxWaiting && len(r.Output) == 0 && r.Waited == 0 {
		return 0, &Refusal{QueueFull, fmt.Sprintf(
			"queue full: %d requests run and %d wait; retry later, or raise max_waiting", s.Running(), s.Waiting())}
	}
	return insert(&s.waiting, s.enlist(r, Waiting)), nil
}

func (s *Scheduler) enlist(r Request, state State) *sequence {
	s.arrivals++
	if !r.Arrived.After(s.latest) {
		r.Arrived = s.latest.Add(1) // keeps arrival times strictly increasing
	}
	s.latest = r.Arrived
	seq := &sequence{Request: r, account: s.join(r), arrival: s.arrivals, state: state,
		tokens: slices.Concat(r.Prompt, r.Output)}
	s.byID[r.ID] = seq
	return seq
}

// runLimit returns how many sequences may run that are not held.
func (s *Scheduler) runLimit() int { return s.limits.MaxSequences - s.held - s.reserved }

// insert inserts a sequence in list order and returns its index.
func insert(list *[]*sequence, seq *sequence) int {
	at, _ := slices.BinarySearchFunc(*list, seq, func(a, b *sequence) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	*list = slices.Insert(*list, at, seq)
	return at
}

func remove(list *[]*sequence, seq *sequence) {
	if at := slices.Index(*list, seq); at >= 0 {
		*list = slices.Delete(*list, at, at+1)
	}
}

// Drop removes a sequence in any state and frees its blocks. It reports whether the sequence
// existed.
func (s *Scheduler) Drop(id string) bool {
	seq, ok := s.byID[id]
	if ok {
		s.drop(seq)
	}
	return ok
}

// Discard is like Drop, for a sequence whose blocks have invalid content. Other sequences do not
// reuse them.
func (s *Scheduler) Discard(id string) bool {
	seq, ok := s.byID[id]
	if !ok {
		return false
	}
	if seq.state == Running {
		for _, b := range seq.table {
			s.pool.Forget(b)
		}
	}
	s.drop(seq)
	return true
}

func (s *Scheduler) drop(seq *sequence) {
	s.unhold(seq)
	delete(s.byID, seq.ID)
	s.leave(seq)
	s.adapters.unpin(seq.Request)
	if seq.state == Running {
		remove(&s.running, seq)
		s.pool.Release(seq.table)
	} else {
		remove(&s.waiting, seq)
	}
}

// State returns the state of a sequence. It reports false if the sequence is unknown.
func (s *Scheduler) State(id string) (State, bool) {
	seq, ok := s.byID[id]
	if !ok {
		return 0, false
	}
	return seq.state, true
}

// Sequence returns the tokens of a sequence. The slices never change afterwards.
func (s *Scheduler) Sequence(id string) (prompt, output []uint32, ok bool) {
	seq, ok := s.byID[id]
	if !ok {
		return nil, nil, false
	}
	return seq.Prompt, slices.Clip(seq.output()), true
}

// Running returns the number of sequences that have blocks.
func (s *Scheduler) Running() int { return len(s.running) + s.held }

// Waiting returns the number of sequences without blocks.
func (s *Scheduler) Waiting() int { return len(s.byID) - s.Running() }

// Done applies the results of a step. sampled has one token for each entry with Sample, in order.
// Entries of sequences that were dropped meanwhile are ignored.
func (s *Scheduler) Done(entries []Entry, sampled []uint32) []Emission {
	emissions := make([]Emission, 0, len(sampled))
	for _, e := range entries {
		var token uint32
		if e.Sample {
			token, sampled = sampled[0], sampled[1:]
		}
		seq := e.sequence
		if s.byID[e.ID] != seq || seq.state != Running {
			continue
		}
		if seq.restoring {
			s.restoreDone(seq)
		}
		seq.computed += len(e.Tokens)
		s.commitFull(seq)
		if e.Sample {
			emissions = append(emissions, s.appendToken(seq, token))
		}
	}
	return emissions
}

// commitFull commits the blocks that became full.
func (s *Scheduler) commitFull(seq *sequence) {
	size := s.pool.BlockTokens()
	for ; (seq.committed+1)*size <= seq.computed; seq.committed++ {
		s.pool.Commit(seq.table[seq.committed], seq.hash(seq.committed, size))
	}
}

// appendToken appends a generated token and ends the sequence if it is the last.
func (s *Scheduler) appendToken(seq *sequence, token uint32) Emission {
	e := Emission{ID: seq.ID, Index: len(seq.tokens) - len(seq.Prompt), Token: token, Cached: seq.cached}
	seq.tokens = append(seq.tokens, token)
	switch {
	case e.Index >= seq.MinOutput && slices.Contains(seq.Stops, token):
		e.Finish = Stop
	case e.Index+1 >= seq.MaxOutput || len(seq.tokens) >= s.limits.ContextTokens:
		e.Finish = Length
	}
	if e.Finish != None {
		s.drop(seq)
	}
	return e
}
