package migrate

import "pgregory.net/rapid"

// carryOutTarget carries out an effect of the target.
func (w *world) carryOutTarget(effect Effect) bool {
	switch e := effect.(type) {
	case KeepOffer:
		w.kept[e.Key] = w.arriving
	case KeepResume:
		w.resumes[e.Key] = w.tokens
	case Forget:
		delete(w.kept, e.Key)
		delete(w.resumes, e.Key)
		delete(w.outcomes, e.Key)
	case Reserve:
		w.reserve(e.Key)
	case Unreserve:
		w.unreserve(e.Key)
	case ReleaseAdapter:
		delete(w.pins, e.ID)
	case OpenSink:
		w.child = append(w.child, func() { w.openSink(e.Key) })
	case CloseSink:
		w.child = append(w.child, func() { w.closeSink(e.Key, e.Blocks) })
	case AskSink:
		w.child = append(w.child, func() {
			if s := w.sinks[e.Key]; s != nil {
				w.do("target", func() []Effect { return w.target.Heard(e.Key, s.lastAt, w.now) })
			}
		})
	case SetExpiry:
		if e.After <= 0 {
			w.Fatalf("ends: a timer of %s", e.After)
		}
		w.expiries[e.Key]++
		w.after(e.After, func() {
			w.expiries[e.Key]--
			w.do("target", func() []Effect { return w.target.Expire(e.Key, w.now) })
		})
	case AnswerOffer:
		w.send("accepted", func() {
			w.do("source", func() []Effect {
				return w.source.Offered(e.Key, e.To, e.Missing, w.capacity[e.Key], w.describe(e.ID), w.now)
			})
		})
	case RefuseOffer:
		w.send("refused", func() {
			w.do("source", func() []Effect { return w.source.OfferRefused(e.Key, e.Refusal.Detail, w.now) })
		})
	case Adopt:
		w.adopt(e.Key)
	case AnswerResume:
		w.answerResume(e)
	case CancelMigration:
	case AnswerOffers:
		w.answerOffers()
	default:
		return false
	}
	return true
}

func (w *world) answerOffers() {
	if !w.between {
		return
	}
	var here []string
	for _, id := range w.target.Postponed() {
		if w.atTarget(id) {
			here = append(here, id)
		}
	}
	w.do("target", func() []Effect { return w.target.StepEnded(w.own(), here, w.now) })
}

// reserve reserves blocks, unless there are too few or an adapter is loading.
func (w *world) reserve(k Key) {
	offer, ok := w.kept[k]
	if !ok || !w.between {
		w.Fatalf("kept: %v is reserved; its offer is kept: %v; between steps: %v", k, ok, w.between)
	}
	for other := range w.reservations {
		if other.ID == k.ID {
			w.Fatalf("released: %v is reserved while %v is", k, other)
		}
	}
	switch rapid.IntRange(0, 5).Draw(w.T, "reserve") {
	case 0:
		w.do("target", func() []Effect { return w.target.NotReserved(k, Refusal{NoMemory, "full", 0}, false, w.now) })
	case 1:
		w.pins[k.ID] = offer.tokens > 0
		w.do("target", func() []Effect { return w.target.NotReserved(k, Refusal{NotReady, "loading", 0}, true, w.now) })
	default:
		if offer.tokens > 0 {
			w.reservations[k] = true
			w.capacity[k] = offer.tokens/testBlockTokens + 1 + rapid.IntRange(0, 3).Draw(w.T, "extra")
			w.resident[k] = rapid.IntRange(0, offer.tokens/testBlockTokens).Draw(w.T, "resident")
		}
		w.do("target", func() []Effect { return w.target.Reserved(k, w.resident[k], w.now) })
	}
}

func (w *world) unreserve(k Key) {
	if s := w.sinks[k]; s != nil && s.open {
		w.Fatalf("closed: the blocks of %v are freed while its transfer is open", k)
	}
	if !w.reservations[k] {
		w.Fatalf("released: %v is released twice", k)
	}
	delete(w.reservations, k)
	delete(w.pins, k.ID)
}

func (w *world) openSink(k Key) {
	if rapid.IntRange(0, 9).Draw(w.T, "open") == 0 {
		w.do("target", func() []Effect { return w.target.OpenFailed(k, "no port", w.now) })
		return
	}
	opened := 1
	if earlier := w.sinks[k]; earlier != nil { // the offer was repeated after the end of the attempt
		opened += earlier.opened
	}
	w.sinks[k] = &testSink{open: true, opened: opened, resident: w.resident[k], blocks: w.capacity[k],
		filled: map[int]int{}}
	w.do("target", func() []Effect { return w.target.Opened(k, w.now) })
}

func (w *world) closeSink(k Key, blocks int) {
	complete := false
	if s := w.sinks[k]; s != nil {
		s.open, complete = false, blocks <= s.blocks
		for i := s.resident; i < blocks; i++ {
			complete = complete && s.filled[i] > 0
		}
	}
	w.do("target", func() []Effect { return w.target.Closed(k, complete, w.own(), w.now) })
}

// adopt adds a sequence to the batch of the target and checks its blocks.
func (w *world) adopt(k Key) {
	s, tokens, sink := w.sequences[k.ID], w.resumes[k], w.sinks[k]
	if w.kept[k].tokens > 0 {
		if sink == nil || sink.open || !w.reservations[k] {
			w.Fatalf("closed: %v is adopted; transfer %+v, reserved %v", k, sink, w.reservations[k])
		}
		delete(w.reservations, k)
		delete(w.pins, k.ID)
		for i := sink.resident; i < (tokens+testBlockTokens-1)/testBlockTokens; i++ {
			if sink.filled[i] != filled(tokens, i) {
				w.Fatalf("complete: block %d of %s arrived with %d tokens of %d", i, k.ID, sink.filled[i],
					filled(tokens, i))
			}
		}
	}
	if rapid.IntRange(0, 9).Draw(w.T, "adopt") == 0 {
		w.do("target", func() []Effect { return w.target.NotAdopted(k, Refusal{NoMemory, "full", 0}, w.now) })
		return
	}
	if s.atTarget {
		w.Fatalf("sole: %s is adopted twice", k.ID)
	}
	delete(w.pins, k.ID)
	s.atTarget = !s.over
	w.do("target", func() []Effect { return w.target.Adopted(k, w.now) })
}

func (w *world) answerResume(e AnswerResume) {
	sink, o := w.sinks[e.Key], w.source.outgoing[e.ID]
	if e.Refusal != nil && e.Refusal.Reason == Conflict && sink.opened == 1 && !sink.crashed && o != nil &&
		o.Key == e.Key {
		w.Fatalf("complete: %v was handed over before all blocks were sent", e.Key)
	}
	ok := e.Refusal == nil
	unknown := !ok && e.Refusal.Reason == NotFound // no answer of an attempt, of which a late offer may begin a new one
	switch was, answered := w.outcomes[e.Key]; {
	case unknown:
	case !answered:
		w.outcomes[e.Key] = ok
	case was != ok:
		w.Fatalf("repeated: %v was answered %v, then %v", e.Key, was, e.Refusal)
	}
	w.send("resumed", func() {
		if e.Refusal != nil {
			w.do("source", func() []Effect { return w.source.ResumeFailed(e.Key, e.Refusal.Detail, w.now) })
			return
		}
		w.do("source", func() []Effect { return w.source.Resumed(e.Key, 1, "n", w.now) })
	})
}
