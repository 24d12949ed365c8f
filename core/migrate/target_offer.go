package migrate

import "slices"

// check returns why an offer cannot be accepted, or nil. Reserve checks the conditions that depend
// on the batch.
func (m *Target) check(in *incoming, e event) *Refusal {
	name := "replica " + m.name
	switch {
	case e.own.Mode == Draining:
		return &Refusal{Busy, name + " is draining", retrySoon}
	case e.own.Mode != Serving:
		return &Refusal{NotReady, name + " is not serving yet", retrySoon}
	case m.plane != PlaneUp:
		return &Refusal{Unsupported, name + " has no data plane to move KV blocks over", 0}
	case e.here || m.incoming[in.ID] != nil:
		return &Refusal{AlreadyExists, "request " + in.ID + " is already on " + name, 0}
	case m.arriving() >= maxIncoming:
		return &Refusal{QueueFull, name + " has the maximum number of incoming sequences", retryQueueFull}
	case in.Shape != m.shape:
		return &Refusal{Invalid, name + " has other KV blocks: " + m.shape.Layout, 0}
	case in.Longest > e.own.Context:
		return &Refusal{TooLong, "the context exceeds the limit of " + name, 0}
	}
	return nil
}

// arriving returns the number of sequences that are neither resumed nor refused yet.
func (m *Target) arriving() (n int) {
	for _, in := range m.incoming {
		if in.state < Running {
			n++
		}
	}
	return n
}

func (m *Target) unacceptable(in *incoming, e event) bool { return m.check(in, e) != nil }

// mustWait reports whether blocks cannot be reserved now. They can be reserved only between two
// steps, and only once the blocks of an earlier attempt are free.
func (m *Target) mustWait(in *incoming, e event) bool { return !e.between || m.releasingID(in, e) }

func (m *Target) releasingID(in *incoming, _ event) bool {
	earlier := m.incoming[in.ID]
	return earlier != nil && earlier.state == Releasing
}

func (m *Target) queueFull(in *incoming, e event) bool {
	return m.mustWait(in, e) && len(m.postponed) >= maxPostponed
}

// patient reports whether an offer may still wait for its adapter.
func (m *Target) patient(in *incoming, e event) bool {
	return e.loading && e.now.Sub(in.since) < adapterTimeout && len(m.postponed) < maxPostponed
}

func (m *Target) noBlocks(in *incoming, _ event) bool { return in.Tokens == 0 }

func (m *Target) postpone(in *incoming, _ event) {
	m.emit(KeepOffer{in.Key})
	m.postponed = append(m.postponed, in)
}

// postponeAgain lets the offer wait for its adapter. The message of the offer stays kept.
func (m *Target) postponeAgain(in *incoming, _ event) {
	delete(m.incoming, in.ID)
	m.postponed = append(m.postponed, in)
}

// overflow drops an offer. The source repeats it.
func (m *Target) overflow(*incoming, event) {}

func (m *Target) stay(*incoming, event) {}

func (m *Target) reserveNew(in *incoming, e event) {
	m.emit(KeepOffer{in.Key})
	m.reserve(in, e)
}

func (m *Target) reserve(in *incoming, _ event) {
	m.unqueue(in)
	m.incoming[in.ID] = in
	m.emit(Reserve{in.Key})
}

// unqueue removes an offer from the waiting ones.
func (m *Target) unqueue(in *incoming) {
	m.postponed = slices.DeleteFunc(m.postponed, func(p *incoming) bool { return p == in })
}

// openSink opens the transfer for the blocks that are not resident.
func (m *Target) openSink(in *incoming, e event) {
	for i := e.resident; i < in.Hashes; i++ {
		in.missing = append(in.missing, uint32(i))
	}
	m.emit(OpenSink{in.Key})
}

func (m *Target) accept(in *incoming, e event) {
	in.heard = e.now
	m.emit(Watch{in.Source})
	m.acceptAgain(in, e)
	m.emit(SetExpiry{in.Key, incomingTimeout})
}

func (m *Target) acceptAgain(in *incoming, _ event) {
	m.emit(AnswerOffer{in.Key, in.Source, in.missing})
}

func (m *Target) refuse(in *incoming, e event) {
	m.emit(RefuseOffer{in.Key, in.Source, *m.check(in, e)})
}

func (m *Target) refusePostponed(in *incoming, e event) {
	why := m.check(in, e)
	m.withdraw(in, e)
	m.emit(RefuseOffer{in.Key, in.Source, *why})
}

// withdraw removes an offer that waits, or that needs no blocks. An earlier offer of the same
// sequence may have left its adapter pinned.
func (m *Target) withdraw(in *incoming, e event) {
	m.emit(ReleaseAdapter{in.Key})
	m.forget(in, e)
}

func (m *Target) refuseUnreserved(in *incoming, e event) {
	delete(m.incoming, in.ID)
	m.emit(ReleaseAdapter{in.Key})
	m.emit(Forget{in.Key})
	m.emit(RefuseOffer{in.Key, in.Source, e.refusal})
}

// refuseUnopened refuses an offer whose transfer could not be opened.
func (m *Target) refuseUnopened(in *incoming, e event) {
	detail := e.detail
	if e.kind == PlaneLost {
		detail = "its transfers were restarted"
	}
	m.free(in, e)
	m.emit(RefuseOffer{in.Key, in.Source, Refusal{NotReady, "data plane: " + detail, retrySoon}})
}
