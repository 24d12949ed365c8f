package batch

import (
	"fmt"
	"time"

	"troupe/core/lora"
)

// adapters tracks the adapters of the scheduler's sequences. A running sequence pins its adapter,
// and so do the first sequences in the queue and reservations.
type adapters struct {
	policy       lora.Policy
	residency    lora.Residency // nil: no sequence has an adapter
	admission    *lora.Admission
	reservations map[*Reservation]bool // open reservations of sequences with adapters
}

// UseAdapters makes the scheduler accept sequences with adapters, which residency pins for them.
// MaxAdapters of the policy limits the number of different adapters that run at once.
func (s *Scheduler) UseAdapters(policy lora.Policy, residency lora.Residency) {
	s.adapters = adapters{policy, residency, lora.NewAdmission(policy, residency), make(map[*Reservation]bool)}
}

func (a *adapters) check(r Request) *Refusal {
	if r.Adapter != "" && a.residency == nil {
		return &Refusal{NoAdapter, "this replica serves no adapters; use the base model"}
	}
	return nil
}

func (a *adapters) unpin(r Request) {
	if r.Adapter != "" {
		a.residency.Unpin(r.ID)
	}
}

// needed reports whether any of the sequences has an adapter.
func (a *adapters) needed(waiting []*sequence) bool {
	if a.residency == nil {
		return false
	}
	for _, s := range waiting {
		if s.Adapter != "" {
			return true
		}
	}
	return false
}

// PrefetchAdapters loads the adapters of the first sequences in the queue. Unlike Plan it may be
// called while a step is in flight.
func (s *Scheduler) PrefetchAdapters() {
	if s.adapters.needed(s.waiting) {
		s.adapters.admission.PrefetchAdapters(s.queue())
	}
}

// queue returns the waiting sequences with their rounds.
func (s *Scheduler) queue() []lora.Waiting {
	queue, rounds := make([]lora.Waiting, len(s.waiting)), s.rounds()
	for i, seq := range s.waiting {
		queue[i] = lora.Waiting{ID: seq.ID, Adapter: seq.Adapter, Class: int(seq.Class), Round: rounds[i],
			Arrived: seq.Arrived}
	}
	return queue
}

// activeAdapters returns the adapters of running sequences, including held ones, and of
// reservations. An adapter may occur several times.
func (s *Scheduler) activeAdapters() []string {
	var all []string
	for _, seq := range s.byID {
		if seq.state == Running && seq.Adapter != "" {
			all = append(all, seq.Adapter)
		}
	}
	for room := range s.adapters.reservations {
		all = append(all, room.request.Adapter)
	}
	return all
}

// admitByAdapter admits waiting sequences in the order of the policy and loads the adapters of
// others.
func (p *planning) admitByAdapter(now time.Time, allowed func(*sequence) bool) {
	enter := func(w lora.Waiting) bool { return p.budget > 0 && allowed(p.byID[w.ID]) && p.admit(p.byID[w.ID]) }
	rejected := p.adapters.admission.Admit(p.queue(), p.activeAdapters(), now, enter)
	rejected = append(rejected, p.adapterTimeouts(now)...)
	for _, r := range rejected {
		p.Drop(r.ID)
	}
	p.step.Rejected = append(p.step.Rejected, rejected...)
	p.PrefetchAdapters()
}

// adapterTimeouts returns the sequences that have waited too long for their adapters. Sequences
// with output are exempt.
func (p *planning) adapterTimeouts(now time.Time) (all []lora.Rejected) {
	if p.adapters.policy.MaxWait == nil {
		return nil
	}
	for _, seq := range p.waiting {
		if len(seq.output()) > 0 { // it is older than MaxAge and served first
			continue
		}
		state, _ := p.adapters.residency.State(seq.Adapter)
		switch most := p.adapters.policy.MaxWait(int(seq.Class)); {
		case seq.Adapter == "" || state == lora.Active || state == lora.Idle:
			seq.adapterWaitSince = time.Time{}
		case seq.adapterWaitSince.IsZero():
			seq.adapterWaitSince = now
		case now.Sub(seq.adapterWaitSince) > most:
			all = append(all, lora.Rejected{
				Waiting: lora.Waiting{ID: seq.ID, Adapter: seq.Adapter},
				Refusal: &lora.Refusal{Reason: lora.NoRoom, Detail: fmt.Sprintf(
					"adapter %s not loaded within %s; retry, or give adapters more pages", seq.Adapter, most)},
			})
		}
	}
	return all
}

// reserveAdapter pins the adapter of a sequence that migrates here.
func (s *Scheduler) reserveAdapter(r Request) *Refusal {
	if refusal := s.adapters.check(r); refusal != nil || r.Adapter == "" {
		return refusal
	}
	different := map[string]bool{r.Adapter: true}
	for _, adapter := range s.activeAdapters() {
		different[adapter] = true
	}
	if most := s.adapters.policy.MaxAdapters; most > 0 && len(different) > most {
		return &Refusal{NoRoom, fmt.Sprintf("adapter limit reached: sequences with %d different adapters run", most)}
	}
	state, refusal := s.adapters.residency.Pin(r.ID, r.Adapter)
	switch {
	case refusal != nil && refusal.Reason == lora.NoRoom:
		return &Refusal{NoRoom, refusal.Detail}
	case refusal != nil:
		return &Refusal{NoAdapter, refusal.Detail}
	case state != lora.Active:
		return &Refusal{AdapterLoading, "adapter " + r.Adapter + " is still loading"}
	}
	return nil
}

// ReleaseAdapter releases the adapter that a refused Reserve may have pinned.
func (s *Scheduler) ReleaseAdapter(r Request) {
	if r.Adapter == "" || s.byID[r.ID] != nil || s.adapters.residency == nil {
		return
	}
	for room := range s.adapters.reservations {
		if room.request.ID == r.ID {
			return
		}
	}
	s.adapters.residency.Unpin(r.ID)
}
