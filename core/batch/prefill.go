package batch

import "time"

// prefill gives tokens to sequences that have more than one to compute, running or waiting. The
// client that was given the fewest is first, and what it gets counts for the next choice.
func (p *planning) prefill(now time.Time) {
	tried := make(map[*sequence]bool)
	for p.budget > 0 {
		p.admitAhead(now, tried)
		seq := p.firstPrefill(tried)
		if seq == nil {
			return
		}
		tried[seq] = true
		p.compute(seq)
	}
}

// firstPrefill returns the running sequence whose prefill goes on first, among those that are not in the step; nil: none.
func (p *planning) firstPrefill(tried map[*sequence]bool) (first *sequence) {
	for _, seq := range p.running {
		if seq.left() > 1 && !seq.entered && !tried[seq] && p.may(seq) && (first == nil || seq.ahead(first)) {
			first = seq
		}
	}
	return first
}

// admitAhead admits the sequences whose clients have had less than those of all running prefills of their class, so that
// long prompts of one client do not take the whole budget of every step.
func (p *planning) admitAhead(now time.Time, tried map[*sequence]bool) {
	may := func(seq *sequence) bool {
		first := p.firstPrefill(tried)
		return first != nil && p.may(seq) && seq.Class == first.Class && seq.account != first.account && seq.ahead(first)
	}
	if seq := p.candidate(); seq != nil && may(seq) {
		p.admitAll(now, may)
	}
}
