package gpu

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/device"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// claimTimeout is the time in which a load must begin to use its reader.
const claimTimeout = 10 * time.Second

// readerEnded is a message to self.
type readerEnded struct{ incarnation uint64 }

// startReaders takes over the readers of an earlier incarnation, which the machine knows already.
func (d *device) startReaders(ctx actor.Context) {
	root, self, incarnation := ctx.ActorSystem().Root, ctx.Self(), d.incarnation
	d.Models.OnReaderEnded(func() { root.Send(self, &readerEnded{incarnation}) })
	d.syncReaders(ctx)
}

// onRead answers a load of another device or node that is about to read weights.
func (d *device) onRead(ctx actor.Context, msg *messages.ReadWeights) {
	answer := &messages.ReadWeightsResult{RequestId: msg.GetRequestId()}
	defer ctx.Respond(answer)
	id, now := supervise.RuntimeOf(ctx.ActorSystem()).ID(), supervise.Now(ctx)
	if _, quarantined := d.quarantine.Current(); quarantined {
		answer.Refused = d.quarantineRefusal("its weights are not read")
		return
	}
	copy, effects := d.memory.ReadAsked(id, msg.GetRevisionDigest(), msg.GetLayout(), now)
	if copy == 0 {
		answer.Refused = &messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND,
			Detail: "revision " + digest.Short(msg.GetRevisionDigest()) + " is not on " + d.Name + ", or leaves it"}
		return
	}
	d.Models.OpenReader(id, copy, now.Add(claimTimeout))
	answer.Reader = id
	d.perform(ctx, effects)
}

func (d *device) onReaderEnded(ctx actor.Context, msg *readerEnded) {
	if msg.incarnation == d.incarnation {
		d.syncReaders(ctx)
	}
}

// revokeReaders makes the readers of a copy end.
func (d *device) revokeReaders(ctx actor.Context, e core.RevokeReaders) {
	d.Log.Info().Uint64("weights", e.Copy).Str("why", e.Why).Msg("weights are not read any longer")
	d.Models.RevokeReaders(e.Copy, "the weights leave "+d.Name+": "+e.Why)
	ctx.Send(ctx.Self(), &readerEnded{d.incarnation}) // those that were not claimed have ended
}

// syncReaders passes on which readers have ended.
func (d *device) syncReaders(ctx actor.Context) {
	d.Models.ExpireReaders(supervise.Now(ctx))
	for _, r := range d.Models.EndedReaders() {
		if r.Damaged != "" {
			d.Log.Error().Uint64("weights", r.Copy).Str("detail", r.Damaged).Msg("weights damaged where they are read")
			d.publish("weights.damaged", "on "+d.Name+", or on their way from there: "+r.Damaged)
		}
		d.Models.ForgetReader(r.ID)
		d.perform(ctx, d.memory.ReadEnded(r.ID, r.Copy, supervise.Now(ctx)))
	}
}
