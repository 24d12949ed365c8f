package replica

import "pgregory.net/rapid"

// turn lets the device grant or recall a turn, or restart, whether expected or not.
func (w *world) turn() {
	switch rapid.IntRange(0, 9).Draw(w.T, "turn") {
	case 0: // a turn of another request
		number := w.turns + 1000
		w.event(func() []Effect {
			if w.m.turnState == AwaitingTurn {
				return nil
			}
			return w.m.Granted(number, rapid.Bool().Draw(w.T, "open"), w.now)
		})
	case 1:
		w.event(func() []Effect { return w.m.Recalled(w.turns+1, w.now) })
	case 2:
		w.event(func() []Effect { return w.m.DeviceRestarted(w.now) })
	case 3, 4, 5, 6:
		w.event(func() []Effect { return w.m.Recalled(w.holds, w.now) })
	default:
		w.grant()
	}
}

// grant grants the turn that the replica has asked for.
func (w *world) grant() {
	if !w.asked {
		return
	}
	open := rapid.Bool().Draw(w.T, "open")
	w.event(func() []Effect {
		w.turns++
		w.asked, w.holds = false, w.turns
		return w.m.Granted(w.turns, open, w.now)
	})
}

// waits reports whether a sequence has blocks and is not in a step, so that it waits for one. A replica
// that saves its blocks runs no step.
func (w *world) waits() bool {
	m := w.m
	free := w.held2 == "" && w.held.id == ""
	return free && m.step == Idle && m.memory != Shrunk && m.state != Saving && m.turnState == NoTurn &&
		m.batch.Running() > 0
}
