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

// adapterLease is adapter memory being leased for a model.
type adapterLease struct {
	pages      int             // requested; 0: see adapterPages
	deadline   time.Time       // of the wait for memory that replicas yield; zero: it has not waited yet
	done       <-chan struct{} // closed when its job ends; nil while it waits
	requesters []requester
}

// adaptersLeased is a message to self.
type adaptersLeased struct {
	incarnation uint64
	lease       string
	model       residency.Loaded
	err         error
}

// onLeaseAdapters leases adapter memory for a model, once.
func (d *device) onLeaseAdapters(ctx actor.Context, msg *messages.LeaseAdapters) {
	lease, req := msg.GetLease(), requester{msg.GetRequestId(), ctx.Sender()}
	m, held := d.held[lease]
	switch a := d.adapterLeases[lease]; {
	case a != nil:
		a.requesters = append(a.requesters, req)
	case !held || d.freeing[lease] != nil:
		ctx.Respond(refusedAdapters(req.requestID, messages.Reason_REASON_NOT_FOUND,
			"lease "+lease+" is not held on "+d.Name))
	case m.AdapterPages > 0:
		ctx.Respond(adaptersResult(req.requestID, m))
	default:
		a = &adapterLease{pages: int(msg.GetPages()), requesters: []requester{req}}
		d.adapterLeases[lease] = a
		d.startAdapterLease(ctx, lease, a)
	}
}

// startAdapterLease leases free pages for adapters and starts a job that allocates them. If the
// free pages are too few, KV memory yields first.
func (d *device) startAdapterLease(ctx actor.Context, lease string, a *adapterLease) {
	m, held := d.held[lease]
	if !held || d.freeing[lease] != nil {
		d.refuseAdapters(ctx, lease, messages.Reason_REASON_NOT_FOUND,
			"lease "+lease+" is no longer held on "+d.Name)
		return
	}
	pages := d.adapterPages(m, a.pages)
	if !d.makeRoom(ctx, lease, pages, &a.deadline) {
		return
	}
	if free := int(d.ledger.Free() / hbm.PageBytes); a.pages == 0 && free < pages { // KV memory did not yield
		if pages = free; free < m.Info.AdapterPages(m.Limits.MaxRank) {
			pages = 0
		}
	}
	if pages == 0 {
		d.refuseAdapters(ctx, lease, messages.Reason_REASON_NO_MEMORY, fmt.Sprintf(
			"%s has %d MiB free, too little for one adapter, and KV memory cannot yield more; "+
				"deploy the model with adapter_pages, or delete another model",
			d.Name, d.ledger.Free()>>20))
		return
	}
	if _, short := d.ledger.Lease(lease, "adapters", int64(pages)*hbm.PageBytes); short != nil {
		d.refuseAdapters(ctx, lease, messages.Reason_REASON_NO_MEMORY, d.Name+": "+short.Error())
		return
	}
	models, note := d.Models, adaptersLeased{incarnation: d.incarnation, lease: lease}
	a.done = supervise.Job(ctx, d.lifetime,
		func(context.Context) (residency.Loaded, error) { return models.LeaseAdapters(lease, pages) },
		func(m residency.Loaded, err error) any {
			note.model, note.err = m, err
			return &note
		})
}

// refuseAdapters refuses an adapter lease whose job has not started.
func (d *device) refuseAdapters(ctx actor.Context, lease string, reason messages.Reason, why string) {
	for _, a := range d.adapterLeases[lease].requesters {
		ctx.Send(a.replyTo, refusedAdapters(a.requestID, reason, why))
	}
	delete(d.adapterLeases, lease)
}

// adapterPages returns the number of pages requested. By default it is enough for the adapters of
// one step, limited to half of the spare memory, and at least for one adapter.
func (d *device) adapterPages(m residency.Loaded, requested int) int {
	spare, one := int(d.budget().Spare()/hbm.PageBytes), m.Info.AdapterPages(m.Limits.MaxRank)
	return cmp.Or(requested, max(one, min(m.Limits.MaxAdapters*one, spare/2)))
}

func (d *device) onAdaptersLeased(ctx actor.Context, msg *adaptersLeased) {
	if msg.incarnation != d.incarnation {
		return
	}
	requesters := d.adapterLeases[msg.lease].requesters
	delete(d.adapterLeases, msg.lease)
	if m, held := d.held[msg.lease]; held && msg.err == nil {
		m.AdapterPages = msg.model.AdapterPages
		d.held[msg.lease] = m
	} else if held {
		d.ledger.ReleaseKind(msg.lease, "adapters")
		d.Log.Warn().Err(msg.err).Str("lease", msg.lease).Msg("allocating adapter memory failed")
	}
	for _, a := range requesters {
		switch {
		case msg.err == nil:
			ctx.Send(a.replyTo, adaptersResult(a.requestID, msg.model))
		case errors.Is(msg.err, errors.ErrUnsupported):
			ctx.Send(a.replyTo, refusedAdapters(a.requestID, messages.Reason_REASON_UNSUPPORTED, msg.err.Error()))
		default:
			ctx.Send(a.replyTo, refusedAdapters(a.requestID, reasonOf(msg.err), msg.err.Error()))
		}
	}
	if errors.Is(msg.err, cuda.ErrDeviceLost) {
		d.startQuarantine(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.err.Error())
	}
}

func adaptersResult(requestID string, m residency.Loaded) *messages.LeaseAdaptersResult {
	return &messages.LeaseAdaptersResult{RequestId: requestID, Outcome: &messages.LeaseAdaptersResult_Leased{
		Leased: &messages.AdaptersLeased{Lease: m.Lease, Pages: uint32(m.AdapterPages)},
	}}
}

func refusedAdapters(requestID string, reason messages.Reason, detail string) *messages.LeaseAdaptersResult {
	return &messages.LeaseAdaptersResult{RequestId: requestID, Outcome: &messages.LeaseAdaptersResult_Refused{
		Refused: &messages.Refused{Reason: reason, Detail: detail},
	}}
}
