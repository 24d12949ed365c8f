package device

import "troupe/core/residency"

// fits reports whether the model is the one that a load requests.
func (model Model) fits(s Spec) bool {
	if s.Revision != "" {
		return model.Revision == s.Revision
	}
	return model.Deploy == s.Deploy
}

// refuseMismatch refuses a load for a lease whose model has another revision, or may have one.
func (m *Memory) refuseMismatch(h *holder, e event) {
	r := Refusal{Reason: WeightsDiffer, Found: h.model.Revision}
	if e.spec.Revision == "" {
		r.Reason = Outdated
	}
	m.emit(RefuseLoad{e.request, e.spec, r})
}

func (m *Memory) refuseQuarantined(_ *holder, e event) {
	m.emit(RefuseLoad{e.request, e.spec, Refusal{Reason: InQuarantine}})
}

func (m *Memory) refuseFreeing(h *holder, e event) {
	m.emit(RefuseLoad{e.request, e.spec, beingFreed(h)})
}

func beingFreed(h *holder) Refusal {
	return Refusal{Reason: NotReady, Detail: "lease " + h.lease + " is being freed", RetryAfter: retryFreeing}
}

func (m *Memory) refuseOverload(h *holder, e event) {
	_, over := m.budget().Add(m.needOf(h, e.size, e.files))
	m.refuseAll(h, Refusal{
		Reason: NoMemory, Detail: m.cfg.Name + ", " + h.spec.Path + ": " + over.Error(), Overload: over,
		Evictable: m.weights.Reclaimable(),
	})
}

// overloads reports whether a load does not fit the budget.
func (m *Memory) overloads(h *holder, e event) bool {
	_, over := m.budget().Add(m.needOf(h, e.size, e.files))
	return over != nil
}

func (m *Memory) refuseDenied(h *holder, e event) {
	m.leaveWeights(h, residency.Keep, e.now)
	m.refuseAll(h, e.refusal)
}

func (m *Memory) refuseFailed(h *holder, e event) {
	m.refuseAll(h, Refusal{
		Reason: e.failure.reason(), Detail: e.failure.Detail, Found: e.failure.Found, Unverified: e.failure.Unverified,
	})
}

// refuseAll refuses all requests that wait for a load.
func (m *Memory) refuseAll(h *holder, why Refusal) {
	m.emit(ModelRefused{h.lease, why})
	for _, r := range h.requests {
		m.emit(RefuseLoad{r, h.spec, why})
	}
}

// reason returns the reason for the refusals that a failure causes.
func (f Failure) reason() Reason {
	switch f.Cause {
	case OutOfMemory:
		return NoMemory
	case RevisionDiffers:
		return WeightsDiffer
	case DeviceLost:
		return DeviceFailed
	}
	return Failed
}
