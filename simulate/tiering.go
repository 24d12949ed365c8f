package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/export"
	"troupe/core/kv"
	"troupe/core/offload"
	core "troupe/core/replica"
	"troupe/core/restore"
	"troupe/core/router"
	"troupe/core/tier"
)

// tiering exchanges KV blocks between a replica and the tiers of its node, as package tiering of the actors and the
// copier.
type tiering struct {
	replica  *replica
	id       string // of the incarnation of the replica
	tiers    []*kvTier
	restores *restore.Machine
	offloads *offload.Machine
	exports  *export.Machine
	lending
	space    kv.Hash // of the blocks in tiers
	lookups  map[uint64]*lookup
	gates    map[uint64]*gate // of copies in progress, by their number
	requests int
	closed   bool // the replica has ended or crashed

	restored map[string]uint64 // blocks by tier
}

// lookup has the leading blocks of a sequence that are locked in the tiers.
type lookup struct {
	id      string // of the locks
	hashes  []kv.Hash
	sources []int // by block: index of the tier, or number of tiers plus index of the holder
	waits   int   // tiers that have not answered
	found   map[kv.Hash]int
	runs    []router.Run // by holder
}

// openTiers opens the tiers of the replica's node, if it has any with room for a block.
func (r *replica) openTiers() {
	n := r.device.node
	t := &tiering{replica: r, id: fmt.Sprintf("%s/%d", r.name, r.incarnation),
		space:   kv.Root("", r.model.digest(), nil),
		lookups: make(map[uint64]*lookup), gates: make(map[uint64]*gate), restored: make(map[string]uint64)}
	var names []string
	for _, tier := range n.tiers {
		if tier.fits(r.model.blockSize()) {
			t.tiers, names = append(t.tiers, tier), append(names, tier.name)
		}
	}
	if len(t.tiers) == 0 && n.remote == nil {
		return
	}
	first := ""
	if len(names) > 0 {
		first = names[0]
	}
	t.restores = restore.New(restore.Config{Tiers: names, Policy: n.Tiers.Restore, BlockBytes: r.model.blockSize(),
		BlockTokens: r.model.BlockTokens, StepTokens: r.model.StepTokens,
		Parts: kv.Parts(int(r.model.blockSize()), r.model.Layers, kv.DefaultPartBytes)})
	t.offloads = offload.New(offload.Config{Replica: r.name, Node: n.Name, Tier: first, Remote: true, Digest: true,
		Watermark: n.Tiers.Watermark, IdleSteps: hbmIdleSteps})
	t.exports = export.New(export.Config{Name: "replica " + r.name,
		Own: &export.Own{Space: t.space, Bytes: int(r.model.blockSize())}})
	r.tiering = t
}

// performTiers carries out an effect that concerns the tiers.
func (r *replica) performTiers(effect core.Effect) {
	t := r.tiering
	if t == nil {
		return
	}
	switch e := effect.(type) {
	case core.Queued:
		if t.performRestore(t.restores.Queued(e.ID)); e.Early && r.machine.InFlight() {
			t.lookupNext()
		}
	case core.Drop:
		t.performRestore(t.restores.Dropped(e.ID))
	case core.PrefillMeasured:
		t.restores.Prefilled(e.Tokens, e.Took)
	case core.StepAborted:
		t.performRestore(t.restores.StepAborted(e.ID))
	case core.RestoreRead:
		t.performRestore(t.restores.StepDone(e.ID))
	}
}

// applyRestores applies the results of ended copies, between two steps.
func (t *tiering) applyRestores() {
	if t != nil {
		t.performRestore(t.restores.EndRestores())
	}
}

// tick does the work for tiers that is due between two steps.
func (t *tiering) tick() {
	if t == nil {
		return
	}
	m := t.replica.machine
	for number, id, ok := t.restores.NextFound(); ok; number, id, ok = t.restores.NextFound() {
		state, known := m.Batch().State(id)
		prompt, output, _ := m.Batch().Sequence(id)
		t.performRestore(t.restores.Judged(number, restore.Sequence{Waits: known && state != batch.Running,
			Tokens: len(prompt) + len(output)}))
	}
	t.performRestore(t.restores.StartReady())
	t.lookupNext()
	s := m.Pool().Stats()
	t.performOffload(t.offloads.Tick(offload.Tick{Steps: m.Steps(), Allocations: s.Allocations, Blocks: s.Blocks,
		AllBlocks: m.Model().Blocks}))
}

// lookupNext starts lookups for the sequences that are next in line for admission.
func (t *tiering) lookupNext() {
	for m := t.replica.machine; t.restores.CanLookUp(); {
		id, hashes, ok := m.Batch().PeekWaiting()
		if !ok {
			return
		}
		t.performRestore(t.restores.Admissible(restore.Candidate{ID: id, Hashes: hashes, Have: m.Pool().Match(hashes),
			Remote: t.remoteAvailable()}))
		if s := t.restores.State(id); s != restore.LookingUp && s != restore.Waiting {
			return
		}
	}
}

// performRestore carries out the effects of core/restore, in order.
func (t *tiering) performRestore(effects []restore.Effect) {
	m := t.replica.machine
	for _, effect := range effects {
		switch e := effect.(type) {
		case restore.Hold:
			m.Batch().Hold(e.ID)
		case restore.Resume:
			m.Batch().Resume(e.ID)
		case restore.LookUp:
			t.lookUp(e)
		case restore.Unlock:
			t.unlock(t.lookups[e.Number], e.Number)
		case restore.Reserve:
			begin, blocks := t.reserve(e)
			t.performRestore(t.restores.Reserved(e.Number, begin, blocks))
		case restore.Copy:
			t.copyUp(e)
		case restore.CanStart:
			t.replica.perform([]core.Effect{core.Advance{}}, t.replica.sim.key.at)
		case restore.StartSequence:
			if m.Batch().StartRestoring(e.ID, e.Table, e.Resident) {
				t.performRestore(t.restores.Started(e.Number))
			}
		case restore.FinishStart:
			m.Batch().RestoreDone(e.ID)
		case restore.UndoStart:
			m.Batch().RestoreFailed(e.ID)
		case restore.CloseGate:
			delete(t.gates, e.Number)
		case restore.Commit:
			for i, b := range e.Blocks {
				m.Pool().Commit(b, e.Hashes[i])
			}
		case restore.MarkBacked:
			for i, b := range e.Blocks {
				m.Pool().MarkBacked(b, e.Hashes[i])
			}
		case restore.Release:
			m.Pool().Release(e.Blocks)
		case restore.Report:
			t.replica.perform(m.ReportSoon(), t.replica.sim.key.at)
		}
	}
}

// reserve references the blocks in HBM, so that the restore does not evict them, and allocates blocks for the
// others.
func (t *tiering) reserve(e restore.Reserve) (begin, blocks []int32) {
	pool := t.replica.machine.Pool()
	begin = pool.Acquire(e.Have)
	for len(begin) == len(e.Have) && len(blocks) < e.Blocks {
		b, ok := pool.Allocate()
		if !ok {
			break
		}
		blocks = append(blocks, b)
	}
	return begin, blocks
}

// remoteAvailable reports whether there are other replicas or nodes that may have blocks.
func (t *tiering) remoteAvailable() bool {
	r := t.replica
	return r.device.node.remote != nil && (len(r.model.replicas) > 1 || len(r.sim.nodeOrder) > 1)
}

// inTiers returns the hashes of blocks in tiers.
func (t *tiering) inTiers(hashes []kv.Hash) []kv.Hash {
	all := make([]kv.Hash, len(hashes))
	for i, h := range hashes {
		all[i] = h.Namespaced(t.space)
	}
	return all
}

// lookUp locks the leading blocks that the tiers have.
func (t *tiering) lookUp(e restore.LookUp) {
	l := &lookup{id: fmt.Sprintf("%s-r%d", t.id, e.Number), hashes: e.Hashes, waits: len(t.tiers),
		found: make(map[kv.Hash]int)}
	t.lookups[e.Number] = l
	hashes := t.inTiers(e.Hashes)
	for i, below := range t.tiers {
		below.lock(l.id, hashes, func(slots []tier.Slot) {
			for _, s := range slots {
				if other, there := l.found[s.Hash]; !there || i < other {
					l.found[s.Hash] = i
				}
			}
			if l.waits--; l.waits == 0 {
				t.lookedUp(e, l)
			}
		})
	}
	if len(t.tiers) == 0 {
		t.replica.sim.post(func() { t.lookedUp(e, l) })
	}
}

// lookedUp looks up who has the blocks that follow those in the tiers.
func (t *tiering) lookedUp(e restore.LookUp, l *lookup) {
	hashes := t.inTiers(e.Hashes)
	for _, h := range hashes {
		source, there := l.found[h]
		if !there {
			break
		}
		l.sources = append(l.sources, source)
	}
	done := func(holders []kv.Path) {
		t.event(func() { t.performRestore(t.restores.LookedUp(e.Number, l.sources, holders)) })
	}
	n := len(l.sources)
	if !e.Remote || n == len(hashes) || t.closed {
		done(nil)
		return
	}
	t.replica.device.node.remote.find(router.Query{ID: l.id, Model: t.replica.model.Name, Replica: t.replica.name,
		Blocks: kv.Fingerprints(e.Hashes[n:]), InTiers: kv.Fingerprints(hashes[n:])},
		func(runs []router.Run, paths []kv.Path) {
			l.runs = runs
			for i, run := range runs {
				for range min(run.Blocks, len(hashes)-len(l.sources)) {
					l.sources = append(l.sources, len(t.tiers)+i)
				}
			}
			done(paths)
		})
}

// event handles an event of the copier, and lets the replica start what can run.
func (t *tiering) event(handle func()) {
	if t.closed {
		return
	}
	r := t.replica
	r.touch()
	handle()
	r.perform([]core.Effect{core.Advance{}}, r.sim.key.at)
}

// close ends the exchange with the replica. The copies in progress go on without a result.
func (t *tiering) close() {
	t.closed = true
	t.stop(t.replica.sim.key.at)
	for _, number := range slices.Sorted(maps.Keys(t.lookups)) {
		t.unlock(t.lookups[number], number)
	}
}

// after does something after a time, unless the replica has ended or crashed by then.
func (t *tiering) after(delay time.Duration, do func()) {
	t.replica.sim.after(delay, func() {
		if !t.closed {
			t.replica.touch()
			do()
		}
	})
}

func (t *tiering) unlock(l *lookup, number uint64) {
	if l == nil {
		return
	}
	delete(t.lookups, number)
	for _, below := range t.tiers {
		below.unlock(l.id)
	}
}
