package migrate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestInvariants runs a source and a target against each other with random events and faults, and
// checks the invariants of doc.go.
func TestInvariants(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		actions := map[string]func(*rapid.T){
			"submit":    w.submit,
			"command":   w.command,
			"repeat":    w.repeatCommand,
			"step":      func(*rapid.T) { w.stepSource() },
			"step more": func(*rapid.T) { w.stepSource() },
			"target steps": func(*rapid.T) {
				w.between = !w.between
				w.answerOffers()
			},
			"deliver": w.deliver, "deliver two": w.deliver, "deliver three": w.deliver, "deliver four": w.deliver,
			"send": w.endSend, "send two": w.endSend,
			"child": w.runChild, "child two": w.runChild,
			"time":         func(*rapid.T) { w.advance(rapid.IntRange(0, 400).Draw(w.T, "ms")) },
			"long time":    func(*rapid.T) { w.advance(rapid.SampledFrom([]int{400, 2500, 6000}).Draw(w.T, "ms")) },
			"end":          w.endSequence,
			"cancel":       w.cancelMigration,
			"source crash": w.loseSends,
			"target crash": w.loseSinks,
			"target lost":  func(*rapid.T) { w.lose("target", 3) },
			"source lost":  func(*rapid.T) { w.lose("source", 3) },
			"mode": func(*rapid.T) {
				w.mode = rapid.SampledFrom([]Mode{Serving, Serving, Serving, Draining}).Draw(w.T, "mode")
			},
			"": func(*rapid.T) { w.checkState() },
		}
		for range 8 { // one Repeat is too short for several migrations
			t.Repeat(actions)
		}
		w.settle()
		for k := range w.ended {
			if w.redirected(k.ID) {
				moved++
			}
		}
	})
	if moved == 0 {
		t.Error("no sequence moved in any run; the test shows nothing")
	}
}

func (w *world) redirected(id string) bool { return w.sequences[id].redirected }

func (w *world) submit(*rapid.T) {
	if len(w.sequences) == maxSequences {
		return
	}
	s := &testSequence{id: fmt.Sprintf("s%02d", len(w.sequences)), atSource: true,
		queued: rapid.IntRange(0, 3).Draw(w.T, "queued") == 0}
	if !s.queued {
		s.tokens = rapid.IntRange(0, 40).Draw(w.T, "tokens")
	}
	w.sequences[s.id] = s
}

// command migrates some sequences, of which some may be unknown, or all.
func (w *world) command(*rapid.T) {
	var ids, here []string
	for _, id := range w.ids() {
		if w.sequences[id].atSource {
			here = append(here, id)
		}
	}
	if len(w.sequences) > 0 && rapid.Bool().Draw(w.T, "some") {
		ids = rapid.SliceOfNDistinct(rapid.SampledFrom(w.ids()), 1, 3, rapid.ID[string]).Draw(w.T, "ids")
	}
	w.order = Command{RequestID: fmt.Sprint("c", len(w.commands)+1000), From: operator, Target: "b", To: atB, IDs: ids}
	if w.commands[w.order.RequestID] != nil {
		return
	}
	n := len(ids)
	if n == 0 {
		n = len(here)
	}
	w.commands[w.order.RequestID] = &testCommand{ids: n, asked: 1}
	w.do("source", func() []Effect { return w.source.Command(w.order, here) })
}

func (w *world) repeatCommand(*rapid.T) {
	if c := w.commands[w.order.RequestID]; c != nil && slices.ContainsFunc(w.source.commands, func(c *command) bool {
		return c.RequestID == w.order.RequestID
	}) {
		c.asked++
		w.do("source", func() []Effect { return w.source.Command(w.order, nil) })
	}
}

// deliver delivers one of the messages in flight, loses it or repeats it.
func (w *world) deliver(*rapid.T) {
	if len(w.network) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.network)-1).Draw(w.T, "message")
	msg := w.network[i]
	fate := rapid.IntRange(0, 9).Draw(w.T, "fate")
	if fate != 1 { // repeated: it stays in flight
		w.network = slices.Delete(w.network, i, i+1)
	}
	if fate > 0 {
		msg.deliver()
	}
}

func (w *world) endSend(*rapid.T) {
	if k, ok := pickKey(w, w.sends); ok {
		w.finishSend(k, rapid.IntRange(0, 9).Draw(w.T, "fails") == 0)
	}
}

// runChild lets the target's data plane handle its next command.
func (w *world) runChild(*rapid.T) {
	if len(w.child) > 0 {
		next := w.child[0]
		w.child = w.child[1:]
		next()
	}
}

// advance lets time pass, and timers fire when they are due.
func (w *world) advance(ms int) {
	until := w.now.Add(time.Duration(ms) * time.Millisecond)
	for {
		next := -1
		for i, t := range w.timers {
			if !t.at.After(until) && (next < 0 || t.at.Before(w.timers[next].at)) {
				next = i
			}
		}
		if next < 0 {
			w.now = until
			return
		}
		t := w.timers[next]
		w.timers = slices.Delete(w.timers, next, next+1)
		w.now = t.at
		t.fire()
	}
}

func (w *world) endSequence(*rapid.T) {
	if id, ok := pick(w, w.sequences); ok && rapid.IntRange(0, 3).Draw(w.T, "ends") == 0 {
		w.finish(w.sequences[id])
	}
}

// cancelMigration preempts a sequence of the source.
func (w *world) cancelMigration(*rapid.T) {
	id, ok := pick(w, w.sequences)
	if s := w.sequences[id]; ok && s.atSource && !s.inStep && rapid.IntRange(0, 3).Draw(w.T, "preempted") == 0 {
		s.queued = true
		w.do("source", func() []Effect { return w.source.Cancel(id, "preempted", w.now) })
	}
}

// loseSends crashes the source's data plane. It starts again once all sends have ended.
func (w *world) loseSends(*rapid.T) {
	if rapid.IntRange(0, 3).Draw(w.T, "crash") == 0 {
		clear(w.sends)
		w.do("source", func() []Effect { return w.source.PlaneLost(w.now) })
	}
}

// loseSinks crashes the target's data plane. It starts again once all transfers are closed.
func (w *world) loseSinks(*rapid.T) {
	if rapid.IntRange(0, 3).Draw(w.T, "crash") == 0 {
		for _, s := range w.sinks {
			s.open = false
		}
		w.child = nil
		w.do("target", func() []Effect { return w.target.PlaneLost(w.now) })
	}
}

// lose reports the other replica as lost to one machine, which a partition does.
func (w *world) lose(machine string, odds int) {
	if rapid.IntRange(0, odds).Draw(w.T, "lost") > 0 {
		return
	}
	w.do(machine, func() []Effect {
		if machine == "source" {
			return w.source.Lost(atB, w.now)
		}
		return w.target.Lost(atA, w.now)
	})
}

// checkState checks the invariants that hold between events.
func (w *world) checkState() {
	if n := len(w.source.outgoing); n > maxOutgoing {
		w.Fatalf("bounded: %d sequences leave", n)
	}
	if n := w.target.arriving(); n > maxIncoming || len(w.target.postponed) > maxPostponed {
		w.Fatalf("bounded: %d sequences arrive, %d offers wait", n, len(w.target.postponed))
	}
	reading := 0
	for _, s := range w.sends {
		reading += len(s.effect.Blocks)
	}
	if reading != w.retained {
		w.Fatalf("retained: %d blocks are read, %d are referenced", reading, w.retained)
	}
	for _, s := range w.sequences {
		if s.held && !w.source.Migrating(s.id) {
			w.Fatalf("continues: %s is held and does not migrate", s.id)
		}
	}
	for _, o := range w.source.outgoing {
		if held := w.sequences[o.ID].held; !held && o.state >= Pausing {
			w.Fatalf("frozen: %s is %s and not held", o.ID, o.state)
		}
	}
}

// settle lets all faults end and time pass until every migration has ended, and checks that
// nothing is left.
func (w *world) settle() {
	w.mode = Serving
	for range 800 {
		if len(w.network)+len(w.sends)+len(w.child)+len(w.source.outgoing)+len(w.source.Waiting()) == 0 &&
			len(w.target.incoming)+len(w.target.postponed) == 0 {
			break
		}
		for len(w.network) > 0 {
			msg := w.network[0]
			w.network = w.network[1:]
			msg.deliver()
		}
		for len(w.child) > 0 {
			w.runChild(nil)
		}
		for k, ok := w.nextSend(); ok; k, ok = w.nextSend() {
			w.finishSend(k, false)
		}
		w.stepSource()
		w.between = true
		w.answerOffers()
		w.advance(250)
	}
	w.checkState()
	if len(w.source.outgoing) > 0 || len(w.source.Waiting()) > 0 {
		w.Fatalf("ends:\n%s", w.dump())
	}
	if len(w.target.incoming)+len(w.target.postponed) > 0 {
		w.Fatalf("ends:\n%s", w.dump())
	}
	for id, c := range w.commands {
		if c.answers == 0 {
			w.Fatalf("answered: %s was not", id)
		}
	}
	for k, s := range w.sinks {
		if s.open {
			w.Fatalf("released: the transfer of %v is open", k)
		}
	}
	if len(w.reservations) > 0 || w.retained != 0 || len(w.kept)+len(w.resumes) > 0 {
		w.Fatalf("released: reservations %v, %d blocks referenced, offers %v, %v", w.reservations, w.retained, w.kept,
			w.resumes)
	}
	for id, pinned := range w.pins {
		if pinned {
			w.Fatalf("released: the adapter of %s stays pinned", id)
		}
	}
	if w.watched["source"] || w.watched["target"] {
		w.Fatalf("watched: %v", w.watched)
	}
}

func (w *world) nextSend() (Key, bool) {
	for k := range w.sends {
		return k, true
	}
	return Key{}, false
}
