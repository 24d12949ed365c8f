package batch

import "time"

// A step cannot be interrupted, so a newcomer waits for the end of the step in flight and then for
// its own. Where several clients use a replica, the limits below keep both short. Its own step is
// kept free of clients that hold more.

const (
	// stepTime is how long a step with prompts should take at most while several clients are here.
	stepTime = 50 * time.Millisecond
	// promptPart is the least part of a step's token budget for the prompts of all clients, and for
	// one short prompt. A fast device computes more in stepTime.
	promptPart = 4
	// clientPart is the least part for the prompts of one client that is not behind others.
	clientPart = 16
	// leastPart is the least number of tokens of either: shorter steps save little.
	leastPart = 32
	// contention is how long the limits hold after a second client was last seen. Its next request
	// would otherwise wait for a step of full length.
	contention = 10 * time.Second
)

// turns divide one step of a contended replica among clients. The zero value limits nothing.
type turns struct {
	contended bool
	prompts   int              // tokens left for prompts
	given     map[*account]int // prompt tokens in the step
	paused    map[*account]bool
	kept      int // tokens of the budget that are kept for decoding
}

// contend sets the limits of a step where another client is here or was here lately.
func (p *planning) contend(now time.Time) {
	if p.shares.several() {
		p.shares.mixed, p.shares.contended = true, now
	}
	if !p.shares.mixed || now.Sub(p.shares.contended) >= contention {
		p.shares.mixed = false
		return
	}
	p.turns = turns{contended: true, prompts: p.part(promptPart), given: make(map[*account]int)}
}

// several reports whether more than one client has sequences here, or another one than at the last
// call.
func (s *shares) several() bool {
	if len(s.clients) != 1 {
		return len(s.clients) > 1
	}
	before := s.latest
	for client := range s.clients {
		s.latest = &client
	}
	return before != nil && *before != *s.latest
}

// part returns a limit in tokens: what the device computes in stepTime, shared as the parts are, but
// at least the part itself and at most a whole step.
func (p *planning) part(of int) int {
	least := max(p.limits.StepTokens/of, min(leastPart, p.limits.StepTokens))
	if p.shares.perToken == 0 {
		return least
	}
	fits := int(stepTime/p.shares.perToken) * promptPart / of
	return max(least, min(fits, p.limits.StepTokens))
}

// Observe takes the duration of a step that had prompts, by which the scheduler knows how many
// tokens make a short step. Steps with few tokens tell little and are left out.
func (s *Scheduler) Observe(tokens int, took time.Duration) {
	if tokens < leastPart || took <= 0 {
		return
	}
	per := max(took/time.Duration(tokens), 1)
	if s.shares.perToken > 0 {
		per = (3*s.shares.perToken + per) / 4
	}
	s.shares.perToken = per
}

// chunk returns the number of tokens that a sequence may compute in the step.
func (p *planning) chunk(seq *sequence) int {
	n := min(seq.left(), p.budget-p.turns.kept)
	if !p.turns.contended || seq.left() == 1 {
		return n
	}
	most := p.allowance(seq) - p.turns.given[seq.account]
	if most > 0 && len(seq.tokens)-seq.cached <= p.part(promptPart) {
		most = seq.left() // a short prompt is not divided
	}
	return max(0, min(n, most, p.turns.prompts))
}

// allowance returns the number of prompt tokens of a sequence's client in one step. A client gets
// more than its part where it is behind another client that has running sequences in the class.
func (p *planning) allowance(seq *sequence) int {
	most := seq.account.served
	for _, r := range p.running {
		if r.Class == seq.Class {
			most = max(most, r.account.served)
		}
	}
	behind := int(min((most-seq.account.served)*seq.account.weight, float64(p.part(promptPart))))
	return max(p.part(clientPart), behind)
}

// may reports whether a sequence may compute tokens of its prompt in the step.
func (p *planning) may(seq *sequence) bool {
	return !p.turns.paused[seq.account] && p.chunk(seq) > 0
}

// newcomer puts the sequence that is served next into the step if it waits for its first token.
// Clients of its class that were given more, and have more sequences here by weight, are then left
// out of this one step.
func (p *planning) newcomer() {
	seq := p.awaited()
	if seq == nil || len(seq.output()) > 0 {
		return
	}
	paused := p.larger(seq)
	if len(paused) == 0 {
		return
	}
	for _, r := range p.running {
		if r != seq && r.left() == 1 && !paused[r.account] {
			p.turns.kept++
		}
	}
	if p.may(seq) {
		if seq.state == Running {
			p.compute(seq)
		} else {
			p.admit(seq)
		}
	}
	if p.turns.kept = 0; seq.entered {
		p.turns.paused = paused
	}
}

// awaited returns the sequence with a prompt to compute that is served next, whether it runs or
// waits; nil: there is none.
func (p *planning) awaited() *sequence {
	first := p.firstPrefill(nil)
	if p.adapters.wanted(p.waiting) {
		return first
	}
	if next := p.candidate(); next != nil && (first == nil || next.account != first.account && next.ahead(first)) {
		return next
	}
	return first
}

// larger returns the clients that run in a sequence's class, come after its own client, and have
// more sequences here by weight.
func (p *planning) larger(seq *sequence) map[*account]bool {
	larger := make(map[*account]bool)
	for _, r := range p.running {
		if r.Class == seq.Class && seq.account.before(r.account) && r.account.part() > seq.account.part() {
			larger[r.account] = true
		}
	}
	return larger
}

// candidate returns the waiting sequence that is admitted next among those that may enter the step;
// nil: there is none. A sequence does not pass one of a higher class.
func (p *planning) candidate() (first *sequence) {
	if !p.turns.contended {
		return p.next()
	}
	full := make(map[*account]bool)
	for _, seq := range p.waiting {
		if seq.Class != p.waiting[0].Class {
			break
		}
		if full[seq.account] || first != nil && !seq.ahead(first) {
			continue
		}
		if p.may(seq) {
			first = seq
		} else {
			full[seq.account] = true
		}
	}
	return first
}
