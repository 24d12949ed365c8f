package batch

// PlanAlone plans a step of one waiting sequence without an adapter, before all others and without them. The
// sequence needs no place in the batch, because the running ones are not in the step. PlanAlone may preempt
// others for its blocks; they are listed in the step even if nothing is planned. Drop the sequence before the
// next plan.
func (s *Scheduler) PlanAlone(id string) (step Step, planned bool) {
	seq, ok := s.byID[id]
	if !ok || seq.state != Waiting || seq.held || seq.Adapter != "" || seq.left() > s.limits.StepTokens {
		return Step{}, false
	}
	p := &planning{Scheduler: s, budget: s.limits.StepTokens}
	blocks := (len(seq.tokens) + s.pool.BlockTokens() - 1) / s.pool.BlockTokens()
	for s.pool.Free() < blocks {
		if len(s.running) == 0 {
			return p.step, false
		}
		p.preempt(s.preemptionVictim(), "no free KV block for "+id)
	}
	remove(&s.waiting, seq)
	seq.state, seq.admitted = Running, true
	insert(&s.running, seq)
	p.cover(seq, len(seq.tokens))
	p.addEntry(seq, seq.left())
	seq.inStep = false
	return p.step, true
}
