package device

func (m *Memory) answerAbsent(h *holder, e event) { m.emit(AnswerUnload{e.request, h.lease, 0}) }

func (m *Memory) refuseLoading(h *holder, e event) {
	m.emit(RefuseUnload{e.request, Refusal{Reason: NotReady, Detail: "lease " + h.lease + " is being loaded"}})
}

// free starts freeing the memory. There is no request if the device is lost.
func (m *Memory) free(h *holder, e event) {
	h.requests, h.fate = join(nil, e.request), e.fate
	m.performWeights(m.weights.Standby(h.lease, h.copy, e.now), Failure{}, e.now)
	m.follow(event{kind: Leaving, lease: h.lease, now: e.now})
	m.settled(h, e)
}

// settled raises Settled: a change of the memory has ended, or none was in progress.
func (m *Memory) settled(h *holder, e event) {
	m.follow(event{kind: Settled, lease: h.lease, now: e.now})
}

func (m *Memory) startFree(h *holder, _ event) { m.emit(Free{h.lease}) }

func (m *Memory) joinUnload(h *holder, e event) {
	h.requests, h.fate = join(h.requests, e.request), max(h.fate, e.fate)
}

// freed releases the pages of a lease whose memory is free.
func (m *Memory) freed(h *holder, e event) {
	m.lastDemand = e.now
	m.ledger.Release(h.lease)
	m.leaveWeights(h, h.fate, e.now)
	m.emit(DropFromTier{h.lease})
	m.emit(ModelUnloaded{h.lease, e.bytes})
	for _, r := range h.requests {
		m.emit(AnswerUnload{r, h.lease, e.bytes})
	}
	m.follow(event{kind: Closed, lease: h.lease, now: e.now})
}

// freeFailed keeps a model resident whose memory could not be freed.
func (m *Memory) freeFailed(h *holder, e event) {
	m.lastDemand = e.now
	m.performWeights(m.weights.Activate(h.lease, h.copy, e.now), Failure{}, e.now)
	for _, r := range h.requests {
		m.emit(RefuseUnload{r, Refusal{Reason: NotFreed, Detail: e.failure.Detail}})
	}
	h.requests = nil
}
