package adapter

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	reportInterval = time.Second
	// growTime is the time in which the gpu actor must answer a request for pages. After it, adapters
	// are evicted instead.
	growTime = time.Second
)

// sendReport reports to the gpu actor how the pages are used, and how many more the pool wants.
func (p *pool) sendReport(ctx actor.Context) {
	report := &messages.AdapterReport{
		Lease: p.Lease, Pages: uint32(p.machine.TotalPages()), WantedPages: uint32(p.machine.Wanted()),
		UsedPages: uint32(p.machine.UsedPages()),
	}
	if p.machine.Shrinking() {
		report.Attempt = p.shrink
	}
	ctx.Request(p.GPU, report)
}

// onReportPages reports at intervals. After a refusal, pages may be requested again from then on.
func (p *pool) onReportPages(ctx actor.Context, msg *reportPages) {
	if msg.incarnation != p.incarnation || p.GPU == nil {
		return
	}
	p.machine.Retry()
	p.sendReport(ctx)
	supervise.After(ctx, reportInterval, msg)
}

// requestPages requests the pages that the machine wants.
func (p *pool) requestPages(ctx actor.Context) {
	p.requests++
	p.sendReport(ctx)
	supervise.After(ctx, growTime, &growTimeout{p.incarnation, p.requests})
}

func (p *pool) onGrowTimeout(ctx actor.Context, msg *growTimeout) {
	if msg.incarnation == p.incarnation && msg.request == p.requests && p.machine.Wanted() > 0 {
		p.machine.NotGranted()
		p.perform(ctx)
	}
}

// onShrink gives back pages. It evicts idle adapters at once, and those in use when they become idle.
func (p *pool) onShrink(ctx actor.Context, msg *messages.ShrinkAdapters) {
	p.shrink = msg.GetAttempt()
	p.machine.Shrink(int(msg.GetPages()))
	p.perform(ctx)
	p.sendChanges(ctx)
}

// onGrow takes over the pages that the store has after a change. Those that were given back and not freed
// are the pool's again.
func (p *pool) onGrow(ctx actor.Context, msg *messages.GrowAdapters) {
	if p.machine.Shrinking() && msg.GetAttempt() < p.shrink {
		return // of an earlier change
	}
	p.store.TakeBack()
	p.machine.Granted(p.store.Pages())
	p.perform(ctx)
	p.sendChanges(ctx)
}
