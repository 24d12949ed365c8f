package batch

import (
	"fmt"
	"time"

	"troupe/core/lora"
)

// adapters are what the scheduler knows of the adapters of its sequences. A sequence that runs holds its adapter; so does one that is first in
// line, and room that is reserved.
type adapters struct {
	policy    lora.Policy
	keeper    lora.Residency // nil: no sequence has one
	admission *lora.Admission
	rooms     map[*Reservation]bool // that are open, for sequences with adapters
}

// UseAdapters has the scheduler take sequences with adapters, which a keeper holds for them. MaxAdapters of the policy is how many
// different ones run at once.
func (s *Scheduler) UseAdapters(policy lora.Policy, keeper lora.Residency) {
	s.adapters = adapters{policy, keeper, lora.NewAdmission(policy, keeper), make(map[*Reservation]bool)}
}

func (a *adapters) check(r Request) *Refusal {
	if r.Adapter != "" && a.keeper == nil {
		return &Refusal{NoAdapter, "this replica takes no adapters; ask for the base model"}
	}
	return nil
}

func (a *adapters) unpin(r Request) {
	if r.Adapter != "" {
		a.keeper.Unpin(r.ID)
	}
}

// wanted reports whether any of them has an adapter.
func (a *adapters) wanted(waiting []*sequence) bool {
	if a.keeper == nil {
		return false
	}
	for _, s := range waiting {
		if s.Adapter != "" {
			return true
		}
	}
	return false
}

// Ahead has the adapters of the first sequences in line loaded. Unlike Plan it may be called while a step is in flight.
func (s *Scheduler) Ahead() {
	if s.adapters.wanted(s.waiting) {
		s.adapters.admission.PrefetchAdapters(s.line())
	}
}

// line is who waits, in the order of service without adapters.
func (s *Scheduler) line() []lora.Waiting {
	line, rounds := make([]lora.Waiting, len(s.waiting)), s.rounds()
	for i, seq := range s.waiting {
		line[i] = lora.Waiting{ID: seq.ID, Adapter: seq.Adapter, Class: int(seq.Class), Round: rounds[i], Arrived: seq.Arrived}
	}
	return line
}

// inside are the adapters of those that run, are held in the midst of it, or have room kept for them.
func (s *Scheduler) inside() []string {
	var all []string
	for _, seq := range s.byID {
		if seq.state == Running && seq.Adapter != "" {
			all = append(all, seq.Adapter)
		}
	}
	for room := range s.adapters.rooms {
		all = append(all, room.request.Adapter)
	}
	return all
}

// admitByAdapter moves waiting sequences into the step in the order of the policy, and has the adapters of others loaded.
func (p *planning) admitByAdapter(now time.Time, may func(*sequence) bool) {
	enter := func(w lora.Waiting) bool { return p.budget > 0 && may(p.byID[w.ID]) && p.admit(p.byID[w.ID]) }
	rejected := p.adapters.admission.Admit(p.line(), p.inside(), now, enter)
	rejected = append(rejected, p.outwaited(now)...)
	for _, r := range rejected {
		p.Drop(r.ID)
	}
	p.step.Rejected = append(p.step.Rejected, rejected...)
	p.Ahead()
}

// outwaited finds those that have waited for their adapters for too long, before their first token.
func (p *planning) outwaited(now time.Time) (all []lora.Rejected) {
	if p.adapters.policy.MaxWait == nil {
		return nil
	}
	for _, seq := range p.waiting {
		if len(seq.output()) > 0 { // it is old, and comes first
			continue
		}
		state, _ := p.adapters.keeper.State(seq.Adapter)
		switch most := p.adapters.policy.MaxWait(int(seq.Class)); {
		case seq.Adapter == "" || state == lora.Active || state == lora.Idle:
			seq.wanting = time.Time{}
		case seq.wanting.IsZero():
			seq.wanting = now
		case now.Sub(seq.wanting) > most:
			all = append(all, lora.Rejected{Waiting: lora.Waiting{ID: seq.ID, Adapter: seq.Adapter}, Refusal: &lora.Refusal{
				Reason: lora.NoRoom, Detail: fmt.Sprintf("adapter %s did not reach the device within %s; try again, or give adapters more pages", seq.Adapter, most),
			}})
		}
	}
	return all
}

// reserveAdapter holds the adapter of a sequence that moves here.
func (s *Scheduler) reserveAdapter(r Request) *Refusal {
	if refusal := s.adapters.check(r); refusal != nil || r.Adapter == "" {
		return refusal
	}
	different := map[string]bool{r.Adapter: true}
	for _, adapter := range s.inside() {
		different[adapter] = true
	}
	if most := s.adapters.policy.MaxAdapters; most > 0 && len(different) > most {
		return &Refusal{NoRoom, fmt.Sprintf("sequences with %d different adapters run, which is the limit", most)}
	}
	state, refusal := s.adapters.keeper.Pin(r.ID, r.Adapter)
	switch {
	case refusal != nil && refusal.Reason == lora.NoRoom:
		return &Refusal{NoRoom, refusal.Detail}
	case refusal != nil:
		return &Refusal{NoAdapter, refusal.Detail}
	case state != lora.Active:
		return &Refusal{AdapterLoading, "adapter " + r.Adapter + " is on its way to the device"}
	}
	return nil
}

// Unreserve gives up the adapter that a Reserve which was refused may hold.
func (s *Scheduler) Unreserve(r Request) {
	if r.Adapter == "" || s.byID[r.ID] != nil || s.adapters.keeper == nil {
		return
	}
	for room := range s.adapters.rooms {
		if room.request.ID == r.ID {
			return
		}
	}
	s.adapters.keeper.Unpin(r.ID)
}
