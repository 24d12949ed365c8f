package restore

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/batch"
	"troupe/core/kv"
)

const (
	blockTokens = 4
	copyParts   = 3
	beingCopied = 1 // content of a slot
	poolBlocks  = 20
)

// world is a scheduler with its pool, an engine, and a copier, which behave arbitrarily. It checks
// the invariants of doc.go by name.
type world struct {
	*rapid.T
	m     *Machine
	pool  *kv.Pool
	batch *batch.Scheduler
	now   time.Time

	step     []batch.Entry // in flight; nil: none
	remote   bool          // there are remote holders
	commands uint64
	answered map[uint64]int

	planned map[string][]uint32  // tokens of the sequences in the step
	slots   []uint64             // by position in the pool: digest of the tokens that its content depends on
	content map[kv.Hash][]uint64 // content of the positions of a block

	lookups map[uint64]LookUp // at the copier
	locked  map[uint64]bool   // lookups that are done, and neither copied nor released
	lost    map[uint64]bool   // lost in a crash of the copier
	copies  map[uint64]*copies
	sought  map[kv.Hash]uint64 // first missing blocks that are looked up or copied for sequences
	first   map[uint64]kv.Hash // first missing block, of lookups for sequences
	refs    map[uint64][]int32
	gates   map[uint64]bool
	undone  map[string]uint64 // held sequences whose start was undone
}

// copies are the copies of one entry.
type copies struct {
	Copy
	hashes  []kv.Hash
	arrived int // number of parts that have arrived
	ended   bool
	all     bool // all blocks were copied
}

func newWorld(t *rapid.T) *world {
	w := &world{T: t, pool: kv.NewPool(poolBlocks, blockTokens), now: time.Unix(1e9, 0),
		answered: map[uint64]int{}, slots: make([]uint64, poolBlocks*blockTokens), content: map[kv.Hash][]uint64{},
		lookups: map[uint64]LookUp{}, locked: map[uint64]bool{}, lost: map[uint64]bool{}, copies: map[uint64]*copies{},
		sought: map[kv.Hash]uint64{}, first: map[uint64]kv.Hash{}, refs: map[uint64][]int32{},
		gates: map[uint64]bool{}, undone: map[string]uint64{}}
	w.remote = rapid.IntRange(0, 9).Draw(t, "local") > 0
	w.batch = batch.New(batch.Limits{MaxSequences: 4, MaxWaiting: 20, StepTokens: 12, ContextTokens: 40}, w.pool)
	w.m = New(Config{Tiers: []string{"dram", "nvme"}[:rapid.IntRange(0, 2).Draw(t, "tiers")],
		BlockBytes: 100, BlockTokens: blockTokens, StepTokens: 12,
		Policy: rapid.SampledFrom(kv.RestorePolicies()).Draw(t, "policy"),
		Parts:  rapid.SampledFrom([]int{1, copyParts, copyParts}).Draw(t, "parts")})
	return w
}

// do carries out the effects of one event, and checks that an ignored event changes nothing.
func (w *world) do(event func() []Effect) {
	before := w.dump()
	effects := event()
	for _, e := range effects {
		if _, ok := e.(Ignored); ok && len(effects) == 1 && before != w.dump() {
			w.Fatalf("ignored: %v changed %+v to %+v", e, before, w.dump())
		}
		w.perform(e)
	}
	w.checkState()
}

// dump summarizes the machine's state.
func (w *world) dump() (s struct {
	sum                                          uint64
	entries, byID, byBlock, active, found, ended int
}) {
	for n, e := range w.m.entries {
		s.sum += n * uint64(100*int(e.state)+10*len(e.waiters)+len(e.id))
	}
	for _, e := range w.m.byID {
		s.sum += uint64(e.state) << 32
	}
	s.entries, s.byID, s.byBlock = len(w.m.entries), len(w.m.byID), len(w.m.byBlock)
	s.active, s.found, s.ended = w.m.active, len(w.m.found), len(w.m.ended)
	return s
}

func (w *world) perform(effect Effect) {
	switch e := effect.(type) {
	case Hold:
		if !w.batch.Hold(e.ID) {
			w.Fatalf("released: %s is held twice", e.ID)
		}
	case Resume:
		if c := w.copies[w.undone[e.ID]]; c != nil && !c.ended {
			w.Fatalf("failed: %s runs before its copies have ended", e.ID)
		}
		delete(w.undone, e.ID)
		w.batch.Resume(e.ID)
	case LookUp:
		w.lookups[e.Number] = e
	case Unlock:
		w.endLookup(e.Number)
		w.endSearch(e.Number)
	case Reserve:
		w.reserve(e)
	case Copy:
		w.endLookup(e.Number)
		w.startCopies(e)
	case StartSequence:
		w.betweenSteps(e)
		if w.batch.StartRestoring(e.ID, e.Table, e.Resident) {
			w.do(func() []Effect { return w.m.Started(e.Number) })
		}
	case FinishStart:
		w.batch.RestoreDone(e.ID)
	case UndoStart:
		w.batch.RestoreFailed(e.ID)
	case CloseGate:
		if !w.gates[e.Number] {
			w.Fatalf("gate: %d is closed twice", e.Number)
		}
		delete(w.gates, e.Number)
	case Commit:
		w.commit(e)
	case MarkBacked:
		for i, b := range e.Blocks {
			w.pool.MarkBacked(b, e.Hashes[i])
		}
	case Release:
		w.release(e)
	case Answer:
		if w.answered[e.Command]++; w.answered[e.Command] > 1 {
			w.Fatalf("answered: command %d is answered twice", e.Command)
		}
	}
}

func (w *world) betweenSteps(e Effect) {
	if w.step != nil {
		w.Fatalf("steps: %v while a step is in flight", e)
	}
}

func (w *world) endLookup(n uint64) {
	if !w.locked[n] && !w.lost[n] {
		w.Fatalf("locks: lookup %d is ended twice, or before it is done", n)
	}
	delete(w.locked, n)
	delete(w.lost, n)
}

// endSearch records that an entry no longer looks up or copies.
func (w *world) endSearch(n uint64) {
	if h, ok := w.first[n]; ok {
		delete(w.first, n)
		delete(w.sought, h)
	}
}

func (w *world) reserve(e Reserve) {
	w.betweenSteps(e)
	begin := w.pool.Acquire(e.Have)
	var blocks []int32
	for len(begin) == len(e.Have) && len(blocks) < e.Blocks {
		b, ok := w.pool.Allocate()
		if !ok {
			break
		}
		blocks = append(blocks, b)
	}
	w.refs[e.Number] = slices.Concat(begin, blocks)
	w.do(func() []Effect { return w.m.Reserved(e.Number, begin, blocks) })
}

func (w *world) startCopies(e Copy) {
	entry := w.m.entries[e.Number]
	w.copies[e.Number] = &copies{Copy: e, hashes: entry.hashes[entry.have:]}
	w.gates[e.Number] = e.Gate
	if !e.Gate {
		delete(w.gates, e.Number)
	}
	for _, b := range e.Blocks {
		for i := range blockTokens {
			w.slots[int(b)*blockTokens+i] = beingCopied
		}
	}
}

// fill writes the first blocks of copies.
func (w *world) fill(c *copies, n int) {
	for i, b := range c.Blocks[:n] {
		copy(w.slots[int(b)*blockTokens:], w.content[c.hashes[i]])
	}
}

func (w *world) commit(e Commit) {
	w.betweenSteps(e)
	for i, b := range e.Blocks {
		want := w.content[e.Hashes[i]]
		if got := w.slots[int(b)*blockTokens:][:len(want)]; !slices.Equal(got, want) {
			w.Fatalf("content: block %d is offered with content %x, want %x", b, got, want)
		}
		w.pool.Commit(b, e.Hashes[i])
	}
}

func (w *world) release(e Release) {
	w.betweenSteps(e)
	for _, n := range slices.Sorted(maps.Keys(w.refs)) {
		if c := w.copies[n]; c != nil && c.ended && slices.Equal(w.refs[n], e.Blocks) {
			delete(w.refs, n)
			delete(w.copies, n)
			w.endSearch(n)
			w.pool.Release(e.Blocks)
			return
		}
	}
	w.Fatalf("references: %v were released before, or are still being copied", e.Blocks)
}

// tokens returns the tokens of a sequence.
func (w *world) tokens(id string) []uint32 {
	prompt, output, _ := w.batch.Sequence(id)
	return slices.Concat(prompt, output)
}

// digest identifies the content of the slot for the last of some tokens.
func digest(tokens []uint32) uint64 {
	sum := uint64(2)
	for _, t := range tokens {
		sum = (sum ^ uint64(t)) * 0x100000001b3
	}
	return sum
}

// learn records the content of the blocks of a prefix.
func (w *world) learn(tokens []uint32, hashes []kv.Hash) {
	for i, h := range hashes {
		var all []uint64
		for p := i * blockTokens; p < min((i+1)*blockTokens, len(tokens)); p++ {
			all = append(all, digest(tokens[:p+1]))
		}
		if len(all) > len(w.content[h]) {
			w.content[h] = all
		}
	}
}

// advance does the work of a replica between two steps, and starts a step.
func (w *world) advance() {
	if w.step != nil {
		return
	}
	w.do(w.m.EndRestores)
	for n, id, ok := w.m.NextFound(); ok; n, id, ok = w.m.NextFound() {
		state, known := w.batch.State(id)
		s := Sequence{Waits: known && state != batch.Running, Tokens: len(w.tokens(id))}
		before := w.m.Counts()
		w.do(func() []Effect { return w.m.Judged(n, s) })
		if w.m.entries[n] != nil && w.m.entries[n].command == 0 && !s.Waits {
			w.Fatalf("counted: %s was restored, but no longer waits", id)
		}
		after := w.m.Counts()
		if id != "" && !s.Waits && after != before || after.Avoided-before.Avoided+after.Restores-before.Restores > 1 {
			w.Fatalf("counted: %+v and then %+v for %s, waits %v", before, after, id, s.Waits)
		}
	}
	w.do(w.m.StartReady)
	w.lookUp()
	if rapid.IntRange(0, 5).Draw(w.T, "pause") == 0 {
		return // as if other sequences had used up the tokens of the step
	}
	plan, ok := w.batch.Plan(w.now)
	w.requeue(plan.Preempted)
	if ok {
		w.step, w.planned = plan.Entries, map[string][]uint32{}
		for _, e := range plan.Entries {
			w.planned[e.ID] = w.tokens(e.ID)
		}
		w.checkStep()
	}
}

// requeue reports preempted sequences.
func (w *world) requeue(all []batch.Preemption) {
	for _, p := range all {
		if w.m.State(p.ID) == Overlapped {
			w.undone[p.ID] = w.m.Gate(p.ID)
		}
		w.do(func() []Effect { return w.m.Queued(p.ID) })
	}
}

// lookUp starts lookups for the sequences that are next in line for admission.
func (w *world) lookUp() {
	for {
		id, hashes, ok := w.batch.PeekWaiting()
		if !ok {
			return
		}
		w.learn(w.tokens(id), hashes)
		c := Candidate{ID: id, Hashes: hashes, Have: w.pool.Match(hashes), Remote: w.remote}
		last := w.m.last
		w.do(func() []Effect { return w.m.Admissible(c) })
		if w.m.last != last {
			h := hashes[c.Have]
			if other, taken := w.sought[h]; taken {
				w.Fatalf("once: %d seeks the same block as %d", w.m.last, other)
			}
			w.sought[h], w.first[w.m.last] = w.m.last, h
		}
		if next, _, _ := w.batch.PeekWaiting(); next == id {
			return
		}
	}
}

// checkStep checks the blocks that a step reads.
func (w *world) checkStep() {
	for _, e := range w.step {
		if !e.Restoring {
			w.checkContent(e)
		} else if n := w.m.Gate(e.ID); !w.gates[n] {
			w.Fatalf("gate: no gate for %s, which is %s", e.ID, w.m.State(e.ID))
		}
		for _, other := range w.m.entries {
			if other.state == Overlapped && other.id != e.ID {
				for _, b := range e.Blocks {
					if slices.Contains(other.blocks, b) {
						w.Fatalf("alone: %s has block %d of %s", e.ID, b, other.id)
					}
				}
			}
		}
	}
}

func (w *world) checkContent(e batch.Entry) {
	tokens := w.tokens(e.ID)
	for p := range e.Position {
		at := int(e.Blocks[p/blockTokens])*blockTokens + p%blockTokens
		if want := digest(tokens[:p+1]); w.slots[at] != want {
			w.Fatalf("content: %s reads %x at position %d, want %x", e.ID, w.slots[at], p, want)
		}
	}
}

// checkState checks the invariants that hold between events.
func (w *world) checkState() {
	active := 0
	for _, e := range w.m.entries {
		if e.command == 0 && slices.Contains(counted, e.state) {
			active++
		}
	}
	if active != w.m.active || active > maxLookups {
		w.Fatalf("limit: %d entries are looked up and restored, counted %d", active, w.m.active)
	}
}
