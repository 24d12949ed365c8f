package batch

import "time"

// A step cannot be interrupted, so a new client waits for the end of the step in flight and then
// for its own step. While several clients use a replica, the limits below keep both short, and the
// new client's step leaves out clients that hold more.

const (
	// stepTime is the target duration of a step with prompts while several clients are present.
	stepTime = 50 * time.Millisecond
	// promptDivisor sets the minimum token limit for the prompts of all clients, and for one short
	// prompt, as a fraction of the step's budget. A fast device computes more in stepTime.
	promptDivisor = 4
	// clientDivisor does the same for the prompts of one client that is not behind others.
	clientDivisor = 16
	// minTokenLimit is the smallest value of either limit; shorter steps save little.
	minTokenLimit = 32
	// contentionHold is how long the limits stay after a second client was last seen. Its next
	// request would otherwise wait for a step of full length.
	contentionHold = 10 * time.Second
)

// contentionLimits divide one step of a contended replica among clients. The zero value limits
// nothing.
type contentionLimits struct {
	contended      bool
	promptBudget   int              // tokens left for prompts
	promptTokens   map[*account]int // prompt tokens in the step by client
	paused         map[*account]bool
	reservedDecode int // tokens of the budget reserved for decoding
}

// applyContention sets the limits of a step if several clients are present or were recently.
func (p *planning) applyContention(now time.Time) {
	if p.shares.severalClients() {
		p.shares.severalRecently, p.shares.severalAt = true, now
	}
	if !p.shares.severalRecently || now.Sub(p.shares.severalAt) >= contentionHold {
		p.shares.severalRecently = false
		return
	}
	p.contention = contentionLimits{contended: true, promptBudget: p.tokenLimit(promptDivisor),
		promptTokens: make(map[*account]int)}
}

// severalClients reports whether more than one client has sequences, or a different one than at the
// last call.
func (s *shares) severalClients() bool {
	if len(s.clients) != 1 {
		return len(s.clients) > 1
	}
	before := s.lastAlone
	for client := range s.clients {
		s.lastAlone = &client
	}
	return before != nil && *before != *s.lastAlone
}

// tokenLimit returns a limit in tokens: what the device computes in stepTime, scaled by
// promptDivisor/divisor. The limit is at least 1/divisor of a step's budget and at most the whole.
func (p *planning) tokenLimit(divisor int) int {
	least := max(p.limits.StepTokens/divisor, min(minTokenLimit, p.limits.StepTokens))
	if p.shares.perToken == 0 {
		return least
	}
	fits := int(stepTime/p.shares.perToken) * promptDivisor / divisor
	return max(least, min(fits, p.limits.StepTokens))
}

// Observe records the duration of a step with prompts. The scheduler derives from it how many
// tokens make a short step. Steps with few tokens are ignored, since they reveal little.
func (s *Scheduler) Observe(tokens int, took time.Duration) {
	if tokens < minTokenLimit || took <= 0 {
		return
	}
	per := max(took/time.Duration(tokens), 1)
	if s.shares.perToken > 0 {
		per = (3*s.shares.perToken + per) / 4
	}
	s.shares.perToken = per
}

// allowance returns the number of prompt tokens of a sequence's client in one step. A client gets
// more than its limit if it is behind another client with running sequences in the class.
func (p *planning) allowance(seq *sequence) int {
	most := seq.account.served
	for _, r := range p.running {
		if r.Class == seq.Class {
			most = max(most, r.account.served)
		}
	}
	behind := int(min((most-seq.account.served)*seq.account.weight, float64(p.tokenLimit(promptDivisor))))
	return max(p.tokenLimit(clientDivisor), behind)
}

// admitNewcomer looks at the next sequence to be served. If that sequence waits for its first
// token, admitNewcomer adds it to the step. The step then leaves out clients of its class that
// received more and have more sequences relative to their weight.
func (p *planning) admitNewcomer() {
	seq := p.nextPrefill()
	if seq == nil || len(seq.output()) > 0 {
		return
	}
	paused := p.largerClients(seq)
	if len(paused) == 0 {
		return
	}
	for _, r := range p.running {
		if r != seq && r.left() == 1 && !paused[r.account] {
			p.contention.reservedDecode++
		}
	}
	if p.mayPrefill(seq) {
		if seq.state == Running {
			p.compute(seq)
		} else {
			p.admit(seq)
		}
	}
	if p.contention.reservedDecode = 0; seq.inStep {
		p.contention.paused = paused
	}
}

// nextPrefill returns the running or waiting sequence whose prompt is computed next; nil if there
// is none.
func (p *planning) nextPrefill() *sequence {
	first := p.firstPrefill(nil)
	if p.adapters.needed(p.waiting) {
		return first
	}
	if next := p.candidate(); next != nil && (first == nil || next.account != first.account &&
		next.servedBefore(first)) {
		return next
	}
	return first
}

// largerClients returns the clients that run in a sequence's class, are served after its client,
// and have more sequences relative to their weight.
func (p *planning) largerClients(seq *sequence) map[*account]bool {
	larger := make(map[*account]bool)
	for _, r := range p.running {
		if r.Class == seq.Class && seq.account.before(r.account) && r.account.load() > seq.account.load() {
			larger[r.account] = true
		}
	}
	return larger
}

// candidate returns the waiting sequence to admit next among those that may enter the step; nil if
// there is none. A sequence never passes one of a higher class.
func (p *planning) candidate() (first *sequence) {
	if !p.contention.contended {
		return p.nextWaiting()
	}
	full := make(map[*account]bool)
	for _, seq := range p.waiting {
		if seq.Class != p.waiting[0].Class {
			break
		}
		if full[seq.account] || first != nil && !seq.servedBefore(first) {
			continue
		}
		if p.mayPrefill(seq) {
			first = seq
		} else {
			full[seq.account] = true
		}
	}
	return first
}
