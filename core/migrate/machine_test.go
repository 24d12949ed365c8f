package migrate

import (
	"fmt"
	"maps"
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
		for range 200 {
			rapid.SampledFrom([]func(){
				w.submit, w.command, w.command, w.repeatCommand, w.stepSource, w.stepSource, w.stepTarget,
				w.deliver, w.deliver, w.deliver, w.deliver, w.deliverLate, w.deliverLate, w.quickly,
				w.endSend, w.endSend, w.runChild, w.runChild, w.shortTime, w.shortTime, w.longTime,
				w.endSequence, w.cancelMigration, w.fail, w.changeMode,
			}).Draw(t, "action")()
			w.checkState()
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

func (w *world) submit() {
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

// command migrates some sequences, possibly unknown ones, or all.
func (w *world) command() {
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

func (w *world) repeatCommand() {
	if c := w.commands[w.order.RequestID]; c != nil && slices.ContainsFunc(w.source.commands, func(c *command) bool {
		return c.RequestID == w.order.RequestID
	}) {
		c.asked++
		w.do("source", func() []Effect { return w.source.Command(w.order, nil) })
	}
}

// deliver delivers, loses or repeats one of the messages in flight.
func (w *world) deliver() {
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

// quickly lets everything except time make progress for some rounds, without faults. Copies of some
// messages stay in flight.
func (w *world) quickly() {
	for range rapid.IntRange(1, 8).Draw(w.T, "rounds") {
		w.deliverAll(func(m testMessage) {
			if rapid.IntRange(0, 5).Draw(w.T, "copy") == 0 {
				w.late = append(w.late, m)
			}
		})
		w.stepSource()
	}
}

// deliverAll delivers all messages, and lets the data planes handle all commands.
func (w *world) deliverAll(each func(testMessage)) {
	w.between = true
	w.answerOffers()
	for len(w.network) > 0 {
		msg := w.network[0]
		w.network = w.network[1:]
		each(msg)
		msg.deliver()
	}
	for len(w.child) > 0 {
		w.runChild()
	}
	for k, ok := w.nextSend(); ok; k, ok = w.nextSend() {
		w.finishSend(k, false)
	}
}

// deliverLate delivers a copy of an old message.
func (w *world) deliverLate() {
	if len(w.late) > 0 {
		i := rapid.IntRange(0, len(w.late)-1).Draw(w.T, "copy")
		w.late[i].deliver()
	}
}

func (w *world) endSend() {
	if k, ok := pickKey(w, w.sends); ok {
		w.finishSend(k, rapid.IntRange(0, 9).Draw(w.T, "fails") == 0)
	}
}

// runChild lets the target's data plane handle its next command.
func (w *world) runChild() {
	if len(w.child) > 0 {
		next := w.child[0]
		w.child = w.child[1:]
		next()
	}
}

// advance advances the time and fires the timers that are due.
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

func (w *world) endSequence() {
	if id, ok := pick(w, w.sequences); ok && rapid.IntRange(0, 5).Draw(w.T, "ends") == 0 {
		w.finish(w.sequences[id])
	}
}

// cancelMigration preempts a sequence of the source.
func (w *world) cancelMigration() {
	id, ok := pick(w, w.sequences)
	if s := w.sequences[id]; ok && s.atSource && !s.inStep && rapid.IntRange(0, 3).Draw(w.T, "preempted") == 0 {
		s.queued = true
		w.do("source", func() []Effect { return w.source.Cancel(id, "preempted", w.now) })
	}
}

// fail crashes a data plane, which restarts once its sends have ended and its transfers are closed,
// or reports one replica as lost to the other, as in a partition.
func (w *world) fail() {
	switch rapid.IntRange(0, 15).Draw(w.T, "fault") {
	case 0:
		clear(w.sends)
		w.do("source", func() []Effect { return w.source.PlaneLost(w.now) })
	case 1:
		for _, s := range w.sinks {
			s.open, s.crashed = false, true
		}
		w.child = nil
		w.do("target", func() []Effect { return w.target.PlaneLost(w.now) })
	case 2:
		w.do("source", func() []Effect { return w.source.Lost(atB, w.now) })
	case 3:
		w.do("target", func() []Effect { return w.target.Lost(atA, w.now) })
	default: // sequences of a step that crashed run one by one, and the others are still in flight
		w.do("source", func() []Effect { return w.source.StepEnded(w.describeAll(w.source.Pausing()), w.now) })
	}
}

func (w *world) changeMode() {
	w.mode = rapid.SampledFrom([]Mode{Serving, Serving, Serving, Draining}).Draw(w.T, "mode")
}

func (w *world) stepTarget() {
	w.between = !w.between
	w.answerOffers()
}

func (w *world) shortTime() { w.advance(rapid.IntRange(0, 100).Draw(w.T, "ms")) }

func (w *world) longTime() {
	if rapid.IntRange(0, 3).Draw(w.T, "long") == 0 {
		w.advance(rapid.SampledFrom([]int{400, 2500, 6000}).Draw(w.T, "ms"))
	}
}

// checkState checks the invariants that hold between events.
func (w *world) checkState() {
	if n := len(w.source.outgoing); n > maxOutgoing {
		w.Fatalf("bounded: %d sequences leave", n)
	}
	if n := w.target.arriving(); n > maxIncoming || len(w.target.postponed) > maxPostponed {
		w.Fatalf("bounded: %d sequences arrive, %d offers wait", n, len(w.target.postponed))
	}
	for _, in := range w.target.incoming {
		if slices.Contains(timed, in.state) && w.expiries[in.Key] == 0 {
			w.Fatalf("ends: %v is %s without a timer", in.Key, in.state)
		}
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

// settle ends all faults and advances the time until every migration has ended. It checks that
// nothing is left.
func (w *world) settle() {
	w.mode = Serving
	for range 800 {
		if len(w.network)+len(w.sends)+len(w.child)+len(w.source.outgoing)+len(w.source.Waiting()) == 0 &&
			len(w.target.incoming)+len(w.target.postponed) == 0 {
			break
		}
		w.deliverAll(func(testMessage) {})
		w.stepSource()
		w.advance(250)
	}
	w.checkState()
	if len(w.source.outgoing) > 0 || len(w.source.Waiting()) > 0 {
		w.Fatalf("ends:\n%v", w.marks())
	}
	if len(w.target.incoming)+len(w.target.postponed) > 0 {
		w.Fatalf("ends:\n%v", w.marks())
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

// nextSend returns the first send in progress.
func (w *world) nextSend() (Key, bool) {
	keys := slices.SortedFunc(maps.Keys(w.sends), CompareKeys)
	if len(keys) == 0 {
		return Key{}, false
	}
	return keys[0], true
}
