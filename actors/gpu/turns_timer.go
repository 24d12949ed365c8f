package gpu

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/turns"
)

// turnTimer is the timer of the turn in progress. Turns are far shorter than their timers, so one timer
// goes on over many turns: when it fires, it is set again for the rest of the time of the current turn.
type turnTimer struct {
	current turns.SetTimer
	due     time.Time // of the current turn
	fires   time.Time // zero: it is not set
	number  uint64    // of the timer that is set
}

// setTurnTimer sets a timer.
func (d *device) setTurnTimer(ctx actor.Context, e turns.SetTimer) {
	if e.Turn == 0 { // a replica is expected
		supervise.After(ctx, e.After, &turnTimeout{incarnation: d.incarnation, expected: e.Replica})
		return
	}
	t := &d.sharing.timer
	t.current, t.due = e, supervise.Now(ctx).Add(e.After)
	if t.fires.IsZero() || t.due.Before(t.fires) {
		d.armTurnTimer(ctx, e.After)
	}
}

func (d *device) armTurnTimer(ctx actor.Context, after time.Duration) {
	t := &d.sharing.timer
	t.number, t.fires = t.number+1, supervise.Now(ctx).Add(after)
	supervise.After(ctx, after, &turnTimeout{incarnation: d.incarnation, number: t.number})
}

func (d *device) onTurnTimeout(ctx actor.Context, msg *turnTimeout) {
	t, now := &d.sharing.timer, supervise.Now(ctx)
	switch {
	case msg.incarnation != d.incarnation:
	case msg.expected != "":
		if d.sharing.machine.State(msg.expected) == turns.Expected {
			d.performTurns(ctx, d.sharing.machine.Timer(msg.expected, 0, now))
		}
	case msg.number != t.number: // an earlier one was set instead
	default:
		t.fires = time.Time{}
		switch d.sharing.machine.State(t.current.Replica) {
		case turns.Holding, turns.Recalled:
			if rest := t.due.Sub(now); rest > 0 {
				d.armTurnTimer(ctx, rest)
				return
			}
			d.performTurns(ctx, d.sharing.machine.Timer(t.current.Replica, t.current.Turn, now))
		}
	}
}
