package migrate

import "time"

// carryOutSource carries out an effect of the source.
func (w *world) carryOutSource(effect Effect) bool {
	switch e := effect.(type) {
	case SendOffer:
		w.offer(e)
	case SendResume:
		w.resume(e)
	case Repeat:
		if o := w.source.outgoing[e.ID]; o == nil || o.Key != e.Key {
			w.Fatalf("answered: %v is repeated after its end", e.Key)
		} else if offered := w.offers[e.Key]; o.state == Offering {
			w.offer(offered)
		} else {
			w.resume(w.asked[e.Key])
		}
	case SendAbandon:
		w.send("abandon", func() {
			w.do("target", func() []Effect { return w.target.Abandoned(e.Key, w.atTarget(e.ID), w.now) })
		})
	case SetTimer:
		w.after(e.After, func() { w.do("source", func() []Effect { return w.source.Timer(e.Key, w.now) }) })
	case HoldSequence:
		if s := w.sequences[e.ID]; s.atSource {
			s.held = true
		}
	case ResumeSequence:
		if s := w.sequences[e.ID]; s.atSource {
			s.held = false
		}
	case RetainBlocks:
		w.retained += len(e.Blocks)
	case ReleaseBlocks:
		w.retained -= len(e.Blocks)
	case SendBlocks:
		w.startSend(e)
	case CancelSend:
		if s := w.sends[e.Key]; s != nil {
			s.cancelled = true
		}
	case Redirect:
		s := w.sequences[e.ID]
		s.redirected = true
		w.send("moved", func() { s.claimed = s.claimed || s.atTarget; w.target.Claim(s.id, w.now) })
	case End:
		w.end(e)
	case AnswerCommand:
		w.answered(e)
	case RefuseCommand:
		if w.commands[e.RequestID].answers > 0 {
			w.Fatalf("answered: %s was answered and is refused", e.RequestID)
		}
		delete(w.commands, e.RequestID)
	case StartNext:
		w.start()
	default:
		return false
	}
	return true
}

func (w *world) atTarget(id string) bool { s := w.sequences[id]; return s != nil && s.atTarget }

func (w *world) start() {
	w.do("source", func() []Effect { return w.source.Start(w.describeAll(w.source.Waiting()), w.now) })
}

func (w *world) offer(e SendOffer) {
	w.offers[e.Key] = e
	w.send("offer", func() {
		w.arriving = testOffer{e.Tokens, atA}
		w.do("target", func() []Effect {
			return w.target.Offer(OfferedSequence{Key: e.Key, Source: atA, Shape: testShape, Tokens: e.Tokens,
				Hashes: len(e.Hashes), Longest: e.Tokens + 100}, w.own(), w.atTarget(e.ID), w.between, w.now)
		})
	})
}

func (w *world) resume(e SendResume) {
	s := w.sequences[e.ID]
	if !s.held || s.inStep || !s.queued && e.Tokens != s.tokens {
		w.Fatalf("frozen: %s is handed over with %d tokens and has %d; held %v, in a step %v", e.ID, e.Tokens, s.tokens,
			s.held, s.inStep)
	}
	w.asked[e.Key] = e
	w.send("resume", func() {
		w.tokens = e.Tokens
		w.do("target", func() []Effect { return w.target.Resume(e.Key, atA, e.Tokens, w.own(), w.now) })
	})
}

func (w *world) startSend(e SendBlocks) {
	s := w.sequences[e.ID]
	send := &testSend{effect: e}
	for i, at := range e.Indices {
		if int32(at) != e.Blocks[i] {
			w.Fatalf("complete: block %d is sent for place %d", e.Blocks[i], at)
		}
		if n := filled(s.tokens, int(at)); n < testBlockTokens && (s.inStep || !s.held) {
			w.Fatalf("frozen: block %d of %s is sent while steps fill it", at, e.ID)
		}
		send.filled = append(send.filled, filled(s.tokens, int(at)))
	}
	if w.sends[e.Key] != nil {
		w.Fatalf("complete: two sends for %v", e.Key)
	}
	w.sends[e.Key] = send
}

// finishSend ends a send. If the send succeeds, the blocks are stored at the target.
func (w *world) finishSend(k Key, fails bool) {
	send, sink := w.sends[k], w.sinks[k]
	delete(w.sends, k)
	if fails || send.cancelled || sink == nil || !sink.open {
		w.do("source", func() []Effect { return w.source.SendFailed(k, "reset", w.now) })
		return
	}
	for i, at := range send.effect.Indices {
		if int(at) < sink.resident || int(at) >= sink.blocks {
			w.do("source", func() []Effect { return w.source.SendFailed(k, "unexpected block", w.now) })
			return
		}
		sink.filled[int(at)], sink.lastAt = send.filled[i], w.now
	}
	w.do("source", func() []Effect { return w.source.Sent(k, w.describe(k.ID), w.now) })
}

func (w *world) end(e End) {
	if w.ended[e.Key] {
		w.Fatalf("ends: %v ended twice", e.Key)
	}
	w.ended[e.Key] = true
	if r := e.Report; r.Moved == (r.Detail != "") || r.Elapsed > migrateTimeout+resendEvery ||
		r.Pause > 5*time.Second {
		w.Fatalf("ends: %+v", r)
	}
	if s := w.sequences[e.ID]; !e.Report.Moved && s.held {
		w.Fatalf("continues: %s stays and is held", e.ID)
	}
}

func (w *world) answered(e AnswerCommand) {
	c := w.commands[e.RequestID]
	if c.answers++; len(e.Reports) != c.ids {
		w.Fatalf("answered: %d reports for %d sequences of %s", len(e.Reports), c.ids, e.RequestID)
	}
	if c.answers > c.asked {
		w.Fatalf("answered: %s was asked %d times and answered %d times", e.RequestID, c.asked, c.answers)
	}
}

// stepSource ends the step in flight, or starts one with all sequences that may run.
func (w *world) stepSource() {
	w.stepping = !w.stepping
	for _, id := range w.ids() {
		s := w.sequences[id]
		switch {
		case w.stepping && s.atSource && !s.held:
			s.inStep, s.queued = true, false
		case !w.stepping && s.inStep:
			s.inStep = false
			s.tokens++
		}
	}
	if w.stepping {
		return
	}
	w.do("source", func() []Effect { return w.source.StepEnded(w.describeAll(w.source.Pausing()), w.now) })
	w.start()
}
