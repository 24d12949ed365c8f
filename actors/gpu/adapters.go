package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/engine/residency"
	"troupe/messages"
)

// adapting is a lease that gets memory for adapters.
type adapting struct {
	pages  int             // that were asked for; 0: as adapterPages has it
	until  time.Time       // for how long it waits for memory that others give up; zero: it has not been short of any
	done   <-chan struct{} // closed when its job has ended; nil while it waits
	askers []asker
}

// adaptersLeased is a note to self.
type adaptersLeased struct {
	incarnation uint64
	lease       string
	model       residency.Loaded
	err         error
}

// onLeaseAdapters has memory for adapters put under a lease, once.
func (d *device) onLeaseAdapters(ctx actor.Context, msg *messages.LeaseAdapters) {
	lease, who := msg.GetLease(), asker{msg.GetRequestId(), ctx.Sender()}
	m, held := d.held[lease]
	switch a := d.adapting[lease]; {
	case a != nil:
		a.askers = append(a.askers, who)
	case !held || d.freeing[lease] != nil:
		ctx.Respond(refusedAdapters(who.requestID, messages.Reason_REASON_NOT_FOUND, "lease "+lease+" is not held on "+d.Name))
	case m.AdapterPages > 0:
		ctx.Respond(leasedAdapters(who.requestID, m))
	default:
		a = &adapting{pages: int(msg.GetPages()), askers: []asker{who}}
		d.adapting[lease] = a
		d.adapt(ctx, lease, a)
	}
}

// adapt takes pages for adapters from what is free, and has them allocated. Where that is too little for one, KV memory gives way first.
func (d *device) adapt(ctx actor.Context, lease string, a *adapting) {
	m, held := d.held[lease]
	if !held || d.freeing[lease] != nil {
		d.refuseAdapters(ctx, lease, messages.Reason_REASON_NOT_FOUND, "lease "+lease+" is not held on "+d.Name+" any more")
		return
	}
	pages := d.adapterPages(m, a.pages)
	if !d.room(ctx, lease, pages, &a.until) {
		return
	}
	if free := int(d.ledger.Free() / hbm.PageBytes); a.pages == 0 && free < pages { // KV memory did not give way
		if pages = free; free < m.Info.AdapterPages(m.Limits.MaxRank) {
			pages = 0
		}
	}
	if pages == 0 {
		d.refuseAdapters(ctx, lease, messages.Reason_REASON_NO_MEMORY, fmt.Sprintf(
			"%s has %d MiB free, too little for one adapter, and KV memory can not give way; deploy the model with adapter_pages, or delete another",
			d.Name, d.ledger.Free()>>20))
		return
	}
	if _, short := d.ledger.Lease(lease, "adapters", int64(pages)*hbm.PageBytes); short != nil {
		d.refuseAdapters(ctx, lease, messages.Reason_REASON_NO_MEMORY, d.Name+": "+short.Error())
		return
	}
	models, note := d.Models, adaptersLeased{incarnation: d.incarnation, lease: lease}
	a.done = supervise.Job(ctx, d.life,
		func(context.Context) (residency.Loaded, error) { return models.LeaseAdapters(lease, pages) },
		func(m residency.Loaded, err error) any {
			note.model, note.err = m, err
			return &note
		})
}

// refuseAdapters ends what never began.
func (d *device) refuseAdapters(ctx actor.Context, lease string, reason messages.Reason, why string) {
	for _, a := range d.adapting[lease].askers {
		ctx.Send(a.replyTo, refusedAdapters(a.requestID, reason, why))
	}
	delete(d.adapting, lease)
}

// adapterPages is what was asked for; else what the adapters of a step take, within half of the memory that is not
// promised for KV blocks, and for one at least.
func (d *device) adapterPages(m residency.Loaded, asked int) int {
	spare, one := int(d.budget().Spare()/hbm.PageBytes), m.Info.AdapterPages(m.Limits.MaxRank)
	return cmp.Or(asked, max(one, min(m.Limits.MaxAdapters*one, spare/2)))
}

func (d *device) onAdaptersLeased(ctx actor.Context, msg *adaptersLeased) {
	if msg.incarnation != d.incarnation {
		return
	}
	askers := d.adapting[msg.lease].askers
	delete(d.adapting, msg.lease)
	if m, held := d.held[msg.lease]; held && msg.err == nil {
		m.AdapterPages = msg.model.AdapterPages
		d.held[msg.lease] = m
	} else if held {
		d.ledger.ReleaseKind(msg.lease, "adapters")
		d.Log.Warn().Err(msg.err).Str("lease", msg.lease).Msg("no memory for adapters")
	}
	for _, a := range askers {
		switch {
		case msg.err == nil:
			ctx.Send(a.replyTo, leasedAdapters(a.requestID, msg.model))
		case errors.Is(msg.err, errors.ErrUnsupported):
			ctx.Send(a.replyTo, refusedAdapters(a.requestID, messages.Reason_REASON_UNSUPPORTED, msg.err.Error()))
		default:
			ctx.Send(a.replyTo, refusedAdapters(a.requestID, reasonOf(msg.err), msg.err.Error()))
		}
	}
	if errors.Is(msg.err, cuda.ErrDeviceLost) {
		d.condemn(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.err.Error())
	}
}

func leasedAdapters(requestID string, m residency.Loaded) *messages.LeaseAdaptersResult {
	return &messages.LeaseAdaptersResult{RequestId: requestID, Outcome: &messages.LeaseAdaptersResult_Leased{
		Leased: &messages.AdaptersLeased{Lease: m.Lease, Pages: uint32(m.AdapterPages)},
	}}
}

func refusedAdapters(requestID string, reason messages.Reason, detail string) *messages.LeaseAdaptersResult {
	return &messages.LeaseAdaptersResult{RequestId: requestID, Outcome: &messages.LeaseAdaptersResult_Refused{
		Refused: &messages.Refused{Reason: reason, Detail: detail},
	}}
}
