package batch

import (
	"math"
	"time"
)

// A run of steps is steady if each of them only adds a token to the same sequences: none joins, ends or
// is preempted. RunSteady applies such steps at once. The scheduler and its pool are then as they would
// be after Done and Plan for each of them.

// SteadySteps returns how many steps are steady from the step in flight on, which has the given
// entries, and after each of which Plan would return the same sequences again.
func (s *Scheduler) SteadySteps(entries []Entry) int {
	if !s.isSteady(entries) || s.mayAdmit() {
		return 0
	}
	n := math.MaxInt
	for _, seq := range s.running {
		n = min(n, seq.MaxOutput-len(seq.output()), s.limits.ContextTokens-len(seq.tokens))
	}
	return s.covered(n - 1)
}

// isSteady reports whether the entries are those of all running sequences, and each decodes one token
// that is not its first and does not depend on stops or adapters.
func (s *Scheduler) isSteady(entries []Entry) bool {
	if len(entries) == 0 || len(entries) != len(s.running) || s.adapters.residency != nil {
		return false
	}
	for i, seq := range s.running {
		if e := &entries[i]; e.sequence != seq || len(e.Tokens) != 1 || !e.Sample || e.Restoring || seq.left() != 1 ||
			len(seq.Stops) > 0 || len(seq.output()) == 0 {
			return false
		}
	}
	return true
}

// mayAdmit reports whether the next plans might admit a waiting sequence. They do not if all belong to
// one client and class, and as many run as may.
func (s *Scheduler) mayAdmit() bool {
	return len(s.waiting) > 0 &&
		(len(s.running) < s.runLimit() || len(s.shares.accounts) > 1 || s.shares.severalRecently)
}

// covered returns the largest number of steps, at most n, after which the free blocks still suffice for
// the step that follows.
func (s *Scheduler) covered(n int) int {
	if n <= 0 || s.blocksFor(n) <= s.pool.Free() {
		return max(n, 0)
	}
	low, high := 0, n // the blocks suffice for low steps, and not for high
	for high-low > 1 {
		if middle := (low + high) / 2; s.blocksFor(middle) <= s.pool.Free() {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// blocksFor returns the number of blocks to allocate so that n steady steps can end and the next one
// begin.
func (s *Scheduler) blocksFor(n int) (blocks int) {
	size := s.pool.BlockTokens()
	for _, seq := range s.running {
		blocks += max(0, (seq.computed+n+size)/size-len(seq.table))
	}
	return blocks
}

// RunSteady ends n steady steps, as SteadySteps counts them, and plans the one after them. Each of the
// steps samples the same tokens, one for each running sequence. now is when the last of them ends. It
// returns the entries of the step that is then in flight.
func (s *Scheduler) RunSteady(sampled []uint32, n int, now time.Time) []Entry {
	for i, seq := range s.running {
		for range n {
			seq.tokens = append(seq.tokens, sampled[i])
			seq.charge(len(seq.Prompt), 1) // one by one, as steps do, so that the sum is rounded likewise
		}
	}
	s.fillBlocks(n)
	s.shares.steps += uint64(n)
	p := &planning{Scheduler: s}
	p.applyContention(now)
	entries := make([]Entry, 0, len(s.running))
	for _, seq := range s.running {
		seq.account.lastStep = s.shares.steps
		at := seq.computed
		entries = append(entries, Entry{ID: seq.ID, Tokens: seq.tokens[at : at+1 : at+1], Position: at,
			Blocks: seq.table[:len(seq.table):len(seq.table)], Sample: true, sequence: seq})
	}
	return entries
}

// fillBlocks counts the tokens of n steady steps as computed. It commits and allocates blocks in the
// order in which the steps would.
func (s *Scheduler) fillBlocks(n int) {
	size := s.pool.BlockTokens()
	for n > 0 {
		steps := n // until a block is full
		for _, seq := range s.running {
			steps = min(steps, size-seq.computed%size)
		}
		for _, seq := range s.running {
			seq.computed += steps
			s.commitFull(seq)
		}
		for _, seq := range s.running {
			for len(seq.table)*size <= seq.computed {
				block, _ := s.pool.Allocate() // see covered
				seq.table = append(seq.table, block)
			}
		}
		n -= steps
	}
}
