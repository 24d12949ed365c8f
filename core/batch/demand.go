package batch

// Demand describes the sequences that the next steps may compute.
type Demand struct {
	Class   Class // the highest; 0: there are no sequences
	Prefill bool  // one of them has tokens of its prompt to compute
}

// Demand returns the demand for steps.
func (s *Scheduler) Demand() (d Demand) {
	for _, seq := range s.running {
		d.Class, d.Prefill = max(d.Class, seq.Class), d.Prefill || seq.left() > 1
	}
	for _, seq := range s.waiting {
		d.Class, d.Prefill = max(d.Class, seq.Class), true
	}
	return d
}

// Request returns a sequence as it was submitted, and how many tokens of its output there are.
func (s *Scheduler) Request(id string) (r Request, output int, ok bool) {
	seq, ok := s.byID[id]
	if !ok {
		return Request{}, 0, false
	}
	return seq.Request, len(seq.output()), true
}
