package batch

import "time"

// prefill gives tokens to the running sequences that have more than one to compute. The client that has had the least is
// first, and what it gets counts for the next choice.
func (p *planning) prefill() {
	tried := make(map[*sequence]bool)
	for p.budget > 0 {
		seq := p.firstPrefill(tried)
		if seq == nil {
			return
		}
		tried[seq] = true
		n := min(seq.left(), p.budget)
		if p.cover(seq, seq.computed+n) {
			p.enter(seq, n)
		}
	}
}

// firstPrefill returns the running sequence whose prefill goes on first, among those that are not in the step; nil: none.
func (p *planning) firstPrefill(tried map[*sequence]bool) (first *sequence) {
	for _, seq := range p.running {
		if seq.left() > 1 && !seq.entered && !tried[seq] && (first == nil || seq.ahead(first)) {
			first = seq
		}
	}
	return first
}

// admitAhead admits the sequences whose clients have had less than those of all running prefills of their class, so that
// long prompts of one client do not take the whole budget of every step.
func (p *planning) admitAhead(now time.Time) {
	may := func(seq *sequence) bool {
		first := p.firstPrefill(nil)
		return first != nil && seq.Class == first.Class && seq.account != first.account && seq.ahead(first)
	}
	if seq := p.next(); seq != nil && may(seq) {
		p.admitAll(now, may)
	}
}
