package batch

import (
	"fmt"
	"slices"

	"troupe/core/kv"
)

// Progress is how far a sequence is, as whoever moves it elsewhere needs to know.
type Progress struct {
	Tokens int       // computed: their keys and values are in Blocks
	Left   int       // to compute before the next one can be chosen
	Blocks []int32   // the block table; only the last of those that hold Tokens may be partial
	Hashes []kv.Hash // of the full blocks
	// Arriving: Blocks are still being filled, and the sequence can not be moved before a step with it is done.
	Arriving bool
}

// Progress reports how far a sequence is. One that waits has no blocks.
func (s *Scheduler) Progress(id string) (Progress, bool) {
	seq, ok := s.byID[id]
	if !ok {
		return Progress{}, false
	}
	p := Progress{Tokens: seq.computed, Left: seq.left(), Blocks: slices.Clip(seq.table), Arriving: seq.arriving}
	if size := s.pool.BlockTokens(); seq.computed >= size {
		seq.hash(seq.computed/size-1, size)
		p.Hashes = slices.Clip(seq.hashes[:seq.computed/size])
	}
	return p, true
}

// Hold takes a sequence out of the next plans, until Resume. It keeps its blocks and its place, and nobody can take them;
// what a step in flight computes for it still counts. It reports false where the sequence is unknown or held already.
func (s *Scheduler) Hold(id string) bool {
	seq, ok := s.byID[id]
	if !ok || seq.held {
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

// Resume puts a held sequence back to where it was.
func (s *Scheduler) Resume(id string) {
	if seq, ok := s.byID[id]; ok {
		s.release(seq)
	}
}

func (s *Scheduler) release(seq *sequence) {
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

// Reservation is room for a running sequence that moves here from another replica.
type Reservation struct {
	// Blocks are what its first blocks go to, in order: the leading Resident ones hold what they should already, the others are
	// to be written. There may be more than were asked for, for what the sequence grows by on its way.
	Blocks   []int32
	Resident int

	hashes  []kv.Hash // of the resident ones
	request Request
	closed  bool
}

// Reserve takes a place and blocks for so many computed tokens of a request, whose full blocks have these hashes. What is
// resident is shared, the rest allocated; nobody gives way for it. Its adapter, where it has one, is held, from AdapterLoading on, after which
// Reserve is to be called again, or Unreserve. It is all or nothing. As Plan, it may be called only while no
// step is in flight, since such a step may still write to the blocks of a sequence that was dropped.
func (s *Scheduler) Reserve(r Request, hashes []kv.Hash, tokens int) (*Reservation, *Refusal) {
	if refusal := r.check(s.limits); refusal != nil {
		return nil, refusal
	}
	size := s.pool.BlockTokens()
	longest := min(len(r.Prompt)+r.MaxOutput, s.limits.ContextTokens)
	switch {
	case s.byID[r.ID] != nil:
		return nil, &Refusal{Duplicate, "request " + r.ID + " is here already"}
	case tokens < 1 || tokens >= longest || len(hashes) != tokens/size:
		return nil, &Refusal{Invalid, fmt.Sprintf("%d hashes for %d tokens of at most %d", len(hashes), tokens, longest)}
	case len(s.running) >= s.places():
		return nil, &Refusal{NoRoom, fmt.Sprintf("all of the %d places are taken", s.limits.MaxSequences)}
	}
	if refusal := s.reserveAdapter(r); refusal != nil {
		return nil, refusal
	}
	need := tokens/size + 1
	if short := need - s.pool.Match(hashes) - s.pool.FreeWithout(hashes); short > 0 {
		s.Unreserve(r)
		return nil, &Refusal{NoRoom, fmt.Sprintf("%d KV blocks are short of the %d that its %d tokens take", short, need, tokens)}
	}
	res := &Reservation{Blocks: s.pool.Acquire(hashes), request: r}
	res.Resident, res.hashes = len(res.Blocks), hashes[:len(res.Blocks)]
	// What it grows by while the missing blocks are sent: half of them, where the data plane is three times faster than it fills them.
	for most := min(need+2+(need-res.Resident)/2, (longest+size-1)/size); len(res.Blocks) < most; {
		b, ok := s.pool.Allocate()
		if !ok {
			break
		}
		res.Blocks = append(res.Blocks, b)
	}
	s.reserved++
	if r.Adapter != "" {
		s.adapters.rooms[res] = true
	}
	return res, nil
}

// Adopt makes a running sequence of a reservation whose blocks were written: the request with the output so far, of which so many
// tokens are computed. It goes on as if it had run here from its start. Whether adopted or refused, the reservation is used up.
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
		return &Refusal{Invalid, "the room kept for " + r.ID + " was given up"}
	case s.byID[r.ID] != nil:
		return &Refusal{Duplicate, "request " + r.ID + " is here already"}
	case tokens < 1 || tokens >= len(r.Prompt)+len(r.Output) || tokens > len(res.Blocks)*size:
		return &Refusal{Invalid, fmt.Sprintf("%d computed tokens of %d, in %d blocks", tokens, len(r.Prompt)+len(r.Output), len(res.Blocks))}
	}
	if refusal := s.reserveAdapter(r); refusal != nil {
		return refusal
	}
	known := kv.Hashes(r.Root, slices.Concat(r.Prompt, r.Output)[:tokens], size)
	if n := min(len(known), res.Resident); !slices.Equal(known[:n], res.hashes[:n]) {
		return &Refusal{Invalid, "the blocks offered for " + r.ID + " are not of its tokens"}
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
	s.Unreserve(res.request)
}

func (s *Scheduler) close(res *Reservation) {
	res.closed = true
	s.reserved--
	delete(s.adapters.rooms, res)
}
