package batch

import (
	"slices"
	"time"

	"troupe/core/lora"
)

// planning is a step in the making.
type planning struct {
	*Scheduler
	step   Step
	budget int // tokens left
	turns  turns
}

// Plan decides the next step. It reports false where there is nothing to compute.
func (s *Scheduler) Plan(now time.Time) (Step, bool) {
	p := &planning{Scheduler: s, budget: s.limits.StepTokens}
	p.step.Entries = make([]Entry, 0, min(len(s.running)+len(s.waiting), s.limits.MaxSequences))
	s.shares.steps++
	if p.contend(now); p.turns.contended {
		p.newcomer()
	}
	p.resume(func(seq *sequence) bool { return seq.left() == 1 && !seq.entered && !p.turns.paused[seq.account] })
	if len(s.shares.accounts) > 1 || p.turns.contended {
		p.prefill(now)
	} else {
		p.resume(func(seq *sequence) bool { return seq.left() > 1 })
	}
	p.admitAll(now, p.may)
	for _, e := range p.step.Entries {
		e.sequence.entered = false
	}
	if s.adapters.keeper != nil {
		lora.GroupByAdapter(p.step.Entries, func(e Entry) string { return e.Adapter })
	}
	return p.step, len(p.step.Entries) > 0
}

// admitAll admits waiting sequences in order, as long as there is room and each may.
func (p *planning) admitAll(now time.Time, may func(*sequence) bool) {
	if p.adapters.wanted(p.waiting) {
		p.admitByAdapter(now, may)
		return
	}
	// One with an adapter was preempted just now, and holds it no more.
	for seq := p.candidate(); seq != nil && seq.Adapter == "" && p.budget > 0 && may(seq) && p.admit(seq); seq = p.candidate() {
	}
}

// resume gives tokens to the running sequences of one kind.
func (p *planning) resume(kind func(*sequence) bool) {
	for _, seq := range slices.Clone(p.running) {
		if seq.state != Running || !kind(seq) || p.budget == 0 {
			continue
		}
		p.compute(seq)
	}
}

// compute puts the next tokens of a running sequence into the step.
func (p *planning) compute(seq *sequence) {
	if n := p.chunk(seq); p.cover(seq, seq.computed+n) {
		p.enter(seq, n)
	}
}

// cover extends a running sequence's table to so many tokens. Where no block is left, the heaviest sequence
// gives way; it reports false where that is this one.
func (p *planning) cover(seq *sequence, tokens int) bool {
	for len(seq.table)*p.pool.BlockTokens() < tokens {
		if b, ok := p.pool.Allocate(); ok {
			seq.table = append(seq.table, b)
			continue
		}
		victim := p.heaviest()
		p.preempt(victim, "no KV block was left for "+seq.ID)
		if victim == seq {
			return false
		}
	}
	return true
}

// preempt takes a running sequence's blocks away and queues it again.
func (p *planning) preempt(victim *sequence, why string) {
	if victim.arriving {
		p.fall(victim)
	} else {
		remove(&p.running, victim)
		p.park(victim)
		p.adapters.unpin(victim.Request)
		victim.state, victim.table, victim.computed, victim.committed = Preempted, nil, 0, 0
		insert(&p.waiting, victim)
	}
	p.step.Preempted = append(p.step.Preempted, Preemption{ID: victim.ID, Why: why})
	p.step.Entries = slices.DeleteFunc(p.step.Entries, func(e Entry) bool {
		if e.sequence != victim {
			return false
		}
		p.spend(victim, e.Position, -len(e.Tokens))
		victim.entered = false
		return true
	})
}

// enter puts n tokens of a running sequence into the step.
func (p *planning) enter(seq *sequence, n int) {
	at, end := seq.computed, seq.computed+n
	seq.entered = true
	p.spend(seq, at, n)
	p.step.Entries = append(p.step.Entries, Entry{
		ID: seq.ID, Tokens: seq.tokens[at:end:end], Position: at, Blocks: slices.Clip(seq.table),
		Sample: end == len(seq.tokens), Adapter: seq.Adapter, Arriving: seq.arriving, sequence: seq,
	})
}

// spend takes n tokens for an entry from what is left of the step; n is negative where the entry is
// taken back.
func (p *planning) spend(seq *sequence, position, n int) {
	p.budget -= n
	if seq.charge(position, n); n > 0 {
		seq.account.step = p.shares.steps
	}
	if p.turns.contended && position < len(seq.tokens)-1 {
		p.turns.prompts -= n
		p.turns.given[seq.account] += n
	}
}

// admit moves a waiting sequence into the step, with blocks for all its tokens and one more. It reports false
// where there is no room.
func (p *planning) admit(seq *sequence) bool {
	if !p.hasPlace(seq) {
		return false
	}
	size := p.pool.BlockTokens()
	hashes := seq.reusable(size)
	blocks := (len(seq.tokens) + size) / size // of one token more, rounded up
	fits := func() bool {
		return len(p.running) < p.places() && blocks-p.pool.Match(hashes) <= p.pool.FreeWithout(hashes)
	}
	if !fits() && !p.displace(seq, blocks, fits) {
		return false
	}
	remove(&p.waiting, seq)
	seq.table = p.pool.Acquire(hashes)
	seq.wanting = time.Time{}
	p.shares.level[seq.Class] = max(p.shares.level[seq.Class], seq.account.served)
	seq.state, seq.computed, seq.committed = Running, len(seq.table)*size, len(seq.table)
	p.unpark(seq)
	if !seq.admitted {
		seq.admitted, seq.cached = true, min(seq.computed, len(seq.Prompt))
	}
	insert(&p.running, seq)
	n := p.chunk(seq)
	if p.cover(seq, len(seq.tokens)) {
		p.enter(seq, n)
	}
	return true
}

// displace preempts sequences that give way to the waiting one until it fits. It does nothing where all of them together
// would not be enough.
func (p *planning) displace(seq *sequence, blocks int, fits func() bool) bool {
	for _, victim := range p.yields(seq, blocks) {
		why := "gave way to " + seq.ID + " of a higher class"
		if victim.Class == seq.Class {
			why = "gave way to " + seq.ID + ", whose client holds less"
		}
		p.preempt(victim, why)
		if fits() {
			return true
		}
	}
	return false // what they left is still being read, or is kept for a sequence that moves here
}
