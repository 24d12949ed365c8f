package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/turns"
	"troupe/engine/residency"
	"troupe/messages"
)

// sharing is what the actor knows of the replicas that share the time of the device.
type sharing struct {
	machine *turns.Machine
	members map[string]*member // by name, which is that of the lease
	timer   turnTimer
}

// member is a replica that shares the device.
type member struct {
	pid     *actor.PID
	started uint64 // start of its incarnation; 0: an earlier incarnation of this actor knew it
	overdue uint64 // number of its turns that became overdue
}

// startTurns expects the replicas that have memory on the device. They end the turns that an earlier
// incarnation of the actor has granted, and join.
func (d *device) startTurns(ctx actor.Context, held []residency.Loaded) {
	d.sharing = sharing{machine: turns.New(turns.Config{Granted: d.granted}), members: make(map[string]*member)}
	held = slices.SortedFunc(slices.Values(held), func(a, b residency.Loaded) int {
		return cmp.Compare(a.Lease, b.Lease)
	})
	for _, m := range held {
		owner := ownerOf(m.Owner)
		if owner.ID == "" {
			continue
		}
		pid := actor.NewPID(owner.Address, owner.ID)
		d.sharing.members[m.Lease] = &member{pid: pid}
		d.performTurns(ctx, d.sharing.machine.Expect(m.Lease, supervise.Now(ctx)))
		ctx.Watch(pid)
		ctx.Send(pid, &messages.RecallTurn{Replica: m.Lease})
	}
}

func (d *device) onRequestTurn(ctx actor.Context, msg *messages.RequestTurn) {
	if joined, _ := d.join(ctx, msg.GetReplica(), msg.GetStarted()); joined {
		d.askTurn(ctx, msg)
	}
}

func (d *device) onTurnEnded(ctx actor.Context, msg *messages.TurnEnded) {
	joined, fresh := d.join(ctx, msg.GetReplica(), msg.GetStarted())
	now, used := supervise.Now(ctx), msg.GetUsed().AsDuration()
	switch {
	case !joined:
	case fresh && msg.GetNext() != nil:
		d.askTurn(ctx, msg.GetNext())
	case fresh:
	case msg.GetNext() != nil:
		d.performTurns(ctx, d.sharing.machine.EndAndAsk(msg.GetReplica(), msg.GetNumber(), used, turnOf(msg.GetNext()),
			now))
	default:
		d.performTurns(ctx, d.sharing.machine.End(msg.GetReplica(), msg.GetNumber(), used, now))
	}
}

func (d *device) askTurn(ctx actor.Context, msg *messages.RequestTurn) {
	d.performTurns(ctx, d.sharing.machine.Ask(msg.GetReplica(), turnOf(msg), supervise.Now(ctx)))
}

// join adds the replica that has sent the message, or its new incarnation, unless it is present. It
// reports whether the replica is present now, and whether it was not before. A message of an earlier
// incarnation changes nothing.
func (d *device) join(ctx actor.Context, name string, started uint64) (joined, fresh bool) {
	m := d.sharing.members[name]
	switch {
	case m != nil && started < m.started:
		return false, false
	case m != nil && started == m.started && !d.absent(name):
		return true, false
	case m == nil:
		m = &member{}
		d.sharing.members[name] = m
	}
	m.pid, m.started = ctx.Sender(), started
	ctx.Watch(m.pid)
	d.performTurns(ctx, d.sharing.machine.Join(name, supervise.Now(ctx)))
	return true, true
}

// absent reports whether a replica has not joined since the actor started.
func (d *device) absent(name string) bool {
	s := d.sharing.machine.State(name)
	return s == turns.Absent || s == turns.Expected
}

// onTerminated removes a replica that has stopped. If the KV tier has stopped, because of too many crashes,
// the actor crashes too: the next incarnation starts a tier, which the replicas report their blocks to.
func (d *device) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	if msg.GetWho().Equal(d.hbm) && d.lifetime.Err() == nil {
		panic("gpu: the KV tier of " + d.Name + " has stopped: too many crashes")
	}
	for _, name := range slices.Sorted(maps.Keys(d.sharing.members)) {
		if d.sharing.members[name].pid.Equal(msg.GetWho()) {
			d.leaveTurns(ctx, name)
		}
	}
}

// leaveTurns removes a replica that has stopped, or whose memory was freed.
func (d *device) leaveTurns(ctx actor.Context, name string) {
	if d.sharing.members[name] != nil {
		delete(d.sharing.members, name)
		d.performTurns(ctx, d.sharing.machine.Leave(name, supervise.Now(ctx)))
	}
}

// performTurns carries out the effects of the turns, in order.
func (d *device) performTurns(ctx actor.Context, effects []turns.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case turns.Grant:
			m := d.sharing.members[e.Replica]
			ctx.Send(m.pid, grantedTurn(e, m.started))
		case turns.Recall:
			ctx.Send(d.sharing.members[e.Replica].pid, &messages.RecallTurn{Replica: e.Replica, Number: e.Turn})
		case turns.SetTimer:
			d.setTurnTimer(ctx, e)
		case turns.ReportOverdue:
			d.overdue(ctx, e)
		case turns.Ignored:
			d.Log.Debug().Str("replica", e.Replica).Stringer("state", e.State).Stringer("event", e.Event).
				Str("why", e.Why).Msg("event ignored by turns")
		default:
			panic(fmt.Sprintf("gpu: unknown effect %T", effect))
		}
	}
}

// overdue reports a turn that lasts too long to its replica.
func (d *device) overdue(ctx actor.Context, e turns.ReportOverdue) {
	m := d.sharing.members[e.Replica]
	m.overdue++
	d.Log.Warn().Str("replica", e.Replica).Uint64("turn", e.Turn).Dur("lasted", e.Lasted).
		Dur("estimate", e.Expectation).Msg("turn overdue")
	d.publish("replica.overdue", fmt.Sprintf("%s has held turn %d for %v, and expected steps of %v; "+
		"others run meanwhile", e.Replica, e.Turn, e.Lasted.Round(time.Millisecond), e.Expectation))
	ctx.Send(m.pid, overdueTurn(d.Name, e))
}
