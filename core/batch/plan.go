package batch

import (
	"slices"
	"time"

	"troupe/core/lora"
)

// planning is the state of one call of Plan.
type planning struct {
	*Scheduler
	step       Step
	budget     int // tokens left
	contention contentionLimits
}

// Plan returns the next step. It reports false if there is nothing to compute.
func (s *Scheduler) Plan(now time.Time) (Step, bool) {
	p := &planning{Scheduler: s, budget: s.limits.StepTokens}
	p.step.Entries = make([]Entry, 0, min(len(s.running)+len(s.waiting), s.limits.MaxSequences))
	s.shares.steps++
	if p.applyContention(now); p.contention.contended {
		p.admitNewcomer()
	}
	p.resumeIf(func(seq *sequence) bool { return seq.left() == 1 && !seq.inStep && !p.contention.paused[seq.account] })
	if len(s.shares.accounts) > 1 || p.contention.contended {
		p.prefill(now)
	} else {
		p.resumeIf(func(seq *sequence) bool { return seq.left() > 1 })
	}
	p.admitAll(now, p.mayPrefill)
	for _, e := range p.step.Entries {
		e.sequence.inStep = false
	}
	if s.adapters.residency != nil {
		lora.GroupByAdapter(p.step.Entries, func(e Entry) string { return e.Adapter })
	}
	return p.step, len(p.step.Entries) > 0
}

// admitAll admits waiting sequences in order while there is room and each is allowed.
func (p *planning) admitAll(now time.Time, allowed func(*sequence) bool) {
	if p.adapters.needed(p.waiting) {
		p.admitByAdapter(now, allowed)
		return
	}
	// A candidate with an adapter was preempted in this plan and has no pin; it waits for the next
	// plan.
	for seq := p.candidate(); seq != nil && seq.Adapter == "" && p.budget > 0 && allowed(seq) &&
		p.admit(seq); seq = p.candidate() {
	}
}

// resumeIf gives tokens to the running sequences of one kind.
func (p *planning) resumeIf(kind func(*sequence) bool) {
	for _, seq := range slices.Clone(p.running) {
		if seq.state != Running || !kind(seq) || p.budget == 0 {
			continue
		}
		p.compute(seq)
	}
}

// compute adds the next tokens of a running sequence to the step.
func (p *planning) compute(seq *sequence) {
	if n := p.chunk(seq); p.cover(seq, seq.computed+n) {
		p.addEntry(seq, n)
	}
}

// cover extends a running sequence's table to hold a number of tokens. If no block is free it preempts
// the preemptionVictim. It reports false if that is this sequence.
func (p *planning) cover(seq *sequence, tokens int) bool {
	for len(seq.table)*p.pool.BlockTokens() < tokens {
		if b, ok := p.pool.Allocate(); ok {
			seq.table = append(seq.table, b)
			continue
		}
		victim := p.preemptionVictim()
		p.preempt(victim, "no free KV block for "+seq.ID)
		if victim == seq {
			return false
		}
	}
	return true
}

// addEntry adds n tokens of a running sequence to the step.
func (p *planning) addEntry(seq *sequence, n int) {
	at, end := seq.computed, seq.computed+n
	seq.inStep = true
	p.spend(seq, at, n)
	p.step.Entries = append(p.step.Entries, Entry{
		ID: seq.ID, Tokens: seq.tokens[at:end:end], Position: at, Blocks: slices.Clip(seq.table),
		Sample: end == len(seq.tokens), Adapter: seq.Adapter, Restoring: seq.restoring, sequence: seq,
	})
}

// spend subtracts n tokens of an entry from the step's budgets; a negative n takes the entry back.
func (p *planning) spend(seq *sequence, position, n int) {
	p.budget -= n
	if seq.charge(position, n); n > 0 {
		seq.account.lastStep = p.shares.steps
	}
	if p.contention.contended && position < len(seq.tokens)-1 {
		p.contention.promptBudget -= n
		p.contention.promptTokens[seq.account] += n
	}
}

// admit adds a waiting sequence to the step, with blocks for all its tokens and one more. It
// reports false if there is no room.
func (p *planning) admit(seq *sequence) bool {
	if !p.canRun(seq) {
		return false
	}
	size := p.pool.BlockTokens()
	hashes := seq.reusable(size)
	blocks := (len(seq.tokens) + size) / size // for one more token, rounded up
	fits := func() bool {
		return len(p.running) < p.runLimit() && blocks-p.pool.Match(hashes) <= p.pool.FreeWithout(hashes)
	}
	if !fits() && !p.displace(seq, blocks, fits) {
		return false
	}
	remove(&p.waiting, seq)
	seq.table = p.pool.Acquire(hashes)
	seq.adapterWaitSince = time.Time{}
	p.shares.startLevel[seq.Class] = max(p.shares.startLevel[seq.Class], seq.account.served)
	seq.state, seq.computed, seq.committed = Running, len(seq.table)*size, len(seq.table)
	p.restorePartial(seq)
	seq.admit()
	insert(&p.running, seq)
	n := p.chunk(seq)
	if p.cover(seq, len(seq.tokens)) {
		p.addEntry(seq, n)
	}
	return true
}
