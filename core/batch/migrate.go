package batch

import (
	"fmt"
	"slices"

	"troupe/core/kv"
)

// Progress is the progress of a sequence, for its migration.
type Progress struct {
	Tokens int       // computed; their keys and values are in Blocks
	Left   int       // tokens to compute before the next one can be chosen
	Blocks []int32   // block table; of the blocks that hold Tokens only the last may be partial
	Hashes []kv.Hash // of the full blocks
	// Restoring means that Blocks are still being filled; the sequence cannot migrate before a step
	// with it is done.
	Restoring bool
}

// Progress returns the progress of a sequence. A waiting sequence has no blocks.
func (s *Scheduler) Progress(id string) (Progress, bool) {
	seq, ok := s.byID[id]
	if !ok {
		return Progress{}, false
	}
	p := Progress{Tokens: seq.computed, Left: seq.left(), Blocks: slices.Clip(seq.table), Restoring: seq.restoring}
	if size := s.pool.BlockTokens(); seq.computed >= size {
		seq.hash(seq.computed/size-1, size)
		p.Hashes = slices.Clip(seq.hashes[:seq.computed/size])
	}
	return p, true
}

// Hold excludes a sequence from plans until Resume. It keeps its blocks and its place, and the step
// in flight still counts for it. Hold reports false if the sequence is unknown, already held, or
// Restoring.
func (s *Scheduler) Hold(id string) bool {
	seq, ok := s.byID[id]
	if !ok || seq.held || seq.restoring {
		return false
	}
	seq.held = true
	if seq.state == Running {
		remove(&s.running, seq)
		s.held++
	} else {
		remove(&s.waiting, seq)
	}
	return true
}

// Resume returns a held sequence to its list.
func (s *Scheduler) Resume(id string) {
	if seq, ok := s.byID[id]; ok {
		s.unhold(seq)
	}
}

func (s *Scheduler) unhold(seq *sequence) {
	switch {
	case !seq.held:
		return
	case seq.state == Running:
		s.held--
		insert(&s.running, seq)
	default:
		insert(&s.waiting, seq)
	}
	seq.held = false
}

// Reservation is room for a running sequence that migrates here.
type Reservation struct {
	// Blocks are for the sequence's first blocks, in order. The first Resident ones already hold
	// the right content; the others are to be written. There may be more than requested, for growth
	// during the migration.
	Blocks   []int32
	Resident int

	hashes  []kv.Hash // of the resident blocks
	request Request
	closed  bool
}

// Reserve reserves a place and blocks for a request whose first tokens are computed; hashes are
// those of its full blocks. Resident blocks are shared and the rest are allocated, without
// preempting. The request's adapter is pinned. If Reserve returns AdapterLoading the pin stays;
// call Reserve again, or ReleaseAdapter. On any other refusal nothing is reserved.
func (s *Scheduler) Reserve(r Request, hashes []kv.Hash, tokens int) (*Reservation, *Refusal) {
	if refusal := r.check(s.limits); refusal != nil {
		return nil, refusal
	}
	size := s.pool.BlockTokens()
	longest := min(len(r.Prompt)+r.MaxOutput, s.limits.ContextTokens)
	switch {
	case s.byID[r.ID] != nil:
		return nil, &Refusal{Duplicate, "request " + r.ID + " already exists"}
	case tokens < 1 || tokens >= longest || len(hashes) != tokens/size:
		return nil, &Refusal{Invalid, fmt.Sprintf("%d hashes for %d tokens; the sequence has at most %d", len(hashes),
			tokens, longest)}
	case len(s.running) >= s.runLimit():
		return nil, &Refusal{NoRoom, fmt.Sprintf("all %d places are taken", s.limits.MaxSequences)}
	}
	if refusal := s.reserveAdapter(r); refusal != nil {
		return nil, refusal
	}
	need := tokens/size + 1
	if short := need - s.pool.Match(hashes) - s.pool.FreeWithout(hashes); short > 0 {
		s.ReleaseAdapter(r)
		return nil, &Refusal{NoRoom, fmt.Sprintf("%d of the %d KV blocks for %d tokens are missing", short, need,
			tokens)}
	}
	res := &Reservation{Blocks: s.pool.Acquire(hashes), request: r}
	res.Resident, res.hashes = len(res.Blocks), hashes[:len(res.Blocks)]
	// Add blocks for the tokens generated while the missing blocks are sent: half as many as are
	// missing, for a data plane that is three times as fast as the generation.
	for most := min(need+2+(need-res.Resident)/2, (longest+size-1)/size); len(res.Blocks) < most; {
		b, ok := s.pool.Allocate()
		if !ok {
			break
		}
		res.Blocks = append(res.Blocks, b)
	}
	s.reserved++
	if r.Adapter != "" {
		s.adapters.reservations[res] = true
	}
	return res, nil
}

// Adopt starts a running sequence in a reservation whose blocks were written. r is the request with
// its output so far; tokens is the number of computed ones. The sequence continues as if it had
// always run here. Adopt consumes the reservation even if it returns a refusal.
func (s *Scheduler) Adopt(res *Reservation, r Request, tokens int) *Refusal {
	if refusal := s.adoptable(res, r, tokens); refusal != nil {
		s.Abandon(res)
		return refusal
	}
	size := s.pool.BlockTokens()
	seq := s.enlist(r, Running)
	used := (tokens + size - 1) / size
	s.pool.Release(res.Blocks[used:])
	seq.table, seq.computed, seq.admitted = slices.Clip(res.Blocks[:used]), tokens, true
	s.close(res)
	insert(&s.running, seq)
	return nil
}

func (s *Scheduler) adoptable(res *Reservation, r Request, tokens int) *Refusal {
	size := s.pool.BlockTokens()
	if refusal := r.check(s.limits); refusal != nil {
		return refusal
	}
	switch {
	case res.closed:
		return &Refusal{Invalid, "the reservation for " + r.ID + " is closed"}
	case s.byID[r.ID] != nil:
		return &Refusal{Duplicate, "request " + r.ID + " already exists"}
	case tokens < 1 || tokens >= len(r.Prompt)+len(r.Output) || tokens > len(res.Blocks)*size:
		return &Refusal{Invalid, fmt.Sprintf("%d of %d tokens computed, in %d blocks", tokens,
			len(r.Prompt)+len(r.Output), len(res.Blocks))}
	}
	if refusal := s.reserveAdapter(r); refusal != nil {
		return refusal
	}
	known := kv.Hashes(r.Root, slices.Concat(r.Prompt, r.Output)[:tokens], size)
	if n := min(len(known), res.Resident); !slices.Equal(known[:n], res.hashes[:n]) {
		return &Refusal{Invalid, "the reserved blocks do not match the tokens of " + r.ID + ""}
	}
	return nil
}

// Abandon frees a reservation that was not adopted.
func (s *Scheduler) Abandon(res *Reservation) {
	if res.closed {
		return
	}
	s.close(res)
	s.pool.Release(res.Blocks)
	s.ReleaseAdapter(res.request)
}

func (s *Scheduler) close(res *Reservation) {
	res.closed = true
	s.reserved--
	delete(s.adapters.reservations, res)
}
