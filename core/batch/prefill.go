package batch

import "time"

// prefill gives tokens to sequences with more than one token to compute, running or waiting. The
// client with the fewest tokens so far is first, and each grant counts for the next choice.
func (p *planning) prefill(now time.Time) {
	tried := make(map[*sequence]bool)
	for p.budget > 0 {
		p.admitUnderserved(now, tried)
		seq := p.firstPrefill(tried)
		if seq == nil {
			return
		}
		tried[seq] = true
		p.compute(seq)
	}
}

// firstPrefill returns the running sequence whose prefill continues first, among those not tried
// and not in the step; nil if there is none.
func (p *planning) firstPrefill(tried map[*sequence]bool) (first *sequence) {
	for _, seq := range p.running {
		if seq.left() > 1 && !seq.inStep && !tried[seq] && p.mayPrefill(seq) &&
			(first == nil || seq.servedBefore(first)) {
			first = seq
		}
	}
	return first
}

// admitUnderserved admits sequences of clients that received less than the clients of all running
// prefills of their class. Long prompts of one client thus cannot take the whole budget of every
// step.
func (p *planning) admitUnderserved(now time.Time, tried map[*sequence]bool) {
	allowed := func(seq *sequence) bool {
		first := p.firstPrefill(tried)
		return first != nil && p.mayPrefill(seq) && seq.Class == first.Class && seq.account != first.account &&
			seq.servedBefore(first)
	}
	if seq := p.candidate(); seq != nil && allowed(seq) {
		p.admitAll(now, allowed)
	}
}

// chunk returns the number of tokens that a sequence may compute in the step.
func (p *planning) chunk(seq *sequence) int {
	n := min(seq.left(), p.budget-p.contention.reservedDecode)
	if !p.contention.contended || seq.left() == 1 {
		return n
	}
	most := p.allowance(seq) - p.contention.promptTokens[seq.account]
	if most > 0 && len(seq.tokens)-seq.cached <= p.tokenLimit(promptDivisor) {
		most = seq.left() // a short prompt is not divided
	}
	return max(0, min(n, most, p.contention.promptBudget))
}

// mayPrefill reports whether a sequence may compute prompt tokens in the step.
func (p *planning) mayPrefill(seq *sequence) bool {
	return !p.contention.paused[seq.account] && p.chunk(seq) > 0
}
