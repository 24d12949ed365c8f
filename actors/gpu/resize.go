package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/engine/residency"
	"troupe/messages"
)

const (
	yieldTimeout        = 5 * time.Second        // for replicas to yield memory to a load
	shrinkRetryInterval = 500 * time.Millisecond // between ShrinkKV commands to a replica
	distributeInterval  = time.Second            // and the time without other demand before it
	reportMaxAge        = 3 * time.Second        // of a report; a replica without a newer one is not asked to shrink
)

// kvUser is the last report of a replica on the KV memory of its lease.
type kvUser struct {
	replica    *actor.PID
	report     *messages.KVReport
	reportedAt time.Time
}

// resize is a lease being changed to another number of blocks.
type resize struct {
	attempt    uint64
	blocks     int
	replica    *actor.PID
	deadline   time.Time
	done       <-chan struct{} // closed when its job ends; nil while the replica still uses the blocks to yield
	requesters []requester     // requested the model meanwhile
}

// retryShrink, resized and distributeTick are messages to self.
type (
	retryShrink struct {
		incarnation uint64
		lease       string
		attempt     uint64
	}
	resized struct {
		incarnation uint64
		lease       string
		attempt     uint64
		model       residency.Loaded
		err         error
	}
	distributeTick struct{ incarnation uint64 }
)

func (d *device) receiveMemory(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *messages.KVReport:
		d.onReport(ctx, msg)
	case *messages.KVShrunk:
		d.onShrunk(ctx, msg)
	case *retryShrink:
		if z := d.resizing[msg.lease]; msg.incarnation == d.incarnation && z != nil && z.attempt == msg.attempt &&
			z.done == nil {
			d.requestShrink(ctx, msg.lease, z)
		}
	case *resized:
		d.onResized(ctx, msg)
	case *distributeTick:
		if msg.incarnation == d.incarnation {
			d.retryWaiting(ctx)
			d.distributeFree(ctx)
			supervise.After(ctx, distributeInterval, msg)
		}
	case *messages.LeaseAdapters:
		d.onLeaseAdapters(ctx, msg)
	case *adaptersLeased:
		d.onAdaptersLeased(ctx, msg)
	default:
		d.receiveHealth(ctx)
	}
}

// onReport records a replica's report. A replica with a wrong number of blocks is sent the right
// one.
func (d *device) onReport(ctx actor.Context, msg *messages.KVReport) {
	m, held := d.held[msg.GetLease()]
	if !held || ctx.Sender() == nil {
		return
	}
	d.kvUsers[msg.GetLease()] = kvUser{ctx.Sender(), msg, time.Now()}
	if d.resizing[msg.GetLease()] == nil && int(msg.GetBlocks()) != m.KVBlocks {
		ctx.Send(ctx.Sender(), &messages.GrowKV{Lease: m.Lease, Blocks: uint32(m.KVBlocks)})
	}
	d.retryWaiting(ctx)
}

// makeRoom tries to free pages for a lease by having replicas yield KV memory. It reports true if
// the pages are free, if replicas cannot yield enough, or if the deadline has passed; the caller
// checks the free pages. It reports false while replicas yield, and sets the deadline of the wait.
func (d *device) makeRoom(ctx actor.Context, lease string, need int, deadline *time.Time) bool {
	free := int(d.ledger.Free() / hbm.PageBytes)
	if need <= free || !deadline.IsZero() && !time.Now().Before(*deadline) {
		return true
	}
	if deadline.IsZero() {
		*deadline = time.Now().Add(yieldTimeout)
	}
	if len(d.resizing) > 0 {
		return false
	}
	pools := d.resizablePools()
	yields, why, ok := hbm.Yield(need, free, pools)
	if !ok && d.mayYieldLater(need-free, pools, deadline) {
		return false
	}
	d.Log.Info().Str("lease", lease).Bool("ok", ok).Str("why", why).Msg("short of memory")
	if !ok {
		return true
	}
	for _, g := range yields {
		m := d.held[g.Owner]
		left := int64(hbm.PagesOf(int64(m.KVBlocks)*m.KVBlockBytes)-g.Pages) * hbm.PageBytes
		d.attempt++
		z := &resize{attempt: d.attempt, blocks: int(left / m.KVBlockBytes), replica: d.kvUsers[g.Owner].replica,
			deadline: *deadline}
		d.resizing[g.Owner] = z
		d.requestShrink(ctx, g.Owner, z)
	}
	return false
}

// resizablePools returns the pools that can be resized now.
func (d *device) resizablePools() (all []hbm.Pool) {
	shares := d.shares()
	for lease, u := range d.kvUsers {
		m, held := d.held[lease]
		if !held || d.notResizable[lease] || d.resizing[lease] != nil || d.freeing[lease] != nil ||
			time.Since(u.reportedAt) > reportMaxAge {
			continue
		}
		pagesOf := func(blocks uint32) int { return hbm.PagesOf(int64(blocks) * m.KVBlockBytes) }
		pages := pagesOf(uint32(m.KVBlocks))
		all = append(all, hbm.Pool{
			Owner: lease, Priority: int(u.report.GetPriority()), LastUsed: u.report.GetLastUsed().AsTime().UnixNano(),
			Pages: pages,
			Min:   max(pagesOf(u.report.GetMinBlocks()), shares[lease].guaranteed), Share: shares[lease].full,
			Wanted: pagesOf(uint32(m.KVBlocks)+u.report.GetWantedBlocks()) - pages,
		})
	}
	return all
}

// requestShrink asks a replica to shrink, repeatedly until it answers or the deadline passes.
func (d *device) requestShrink(ctx actor.Context, lease string, z *resize) {
	if !time.Now().Before(z.deadline) {
		d.abortShrink(ctx, lease, z, "no answer within "+yieldTimeout.String())
		return
	}
	ctx.Request(z.replica, &messages.ShrinkKV{Lease: lease, Blocks: uint32(z.blocks), Attempt: z.attempt})
	supervise.After(ctx, shrinkRetryInterval, &retryShrink{d.incarnation, lease, z.attempt})
}

// abortShrink ends a shrink that failed. The replica is not asked again until it reports.
func (d *device) abortShrink(ctx actor.Context, lease string, z *resize, why string) {
	d.Log.Warn().Str("lease", lease).Str("why", why).Msg("replica yields no KV memory")
	delete(d.resizing, lease)
	delete(d.kvUsers, lease)
	ctx.Send(z.replica, &messages.GrowKV{Lease: lease, Blocks: uint32(d.held[lease].KVBlocks)})
	d.retryWaiting(ctx)
}

// onShrunk handles a replica's confirmation that it no longer uses the blocks and runs no step. A
// stale confirmation is answered with the current number of blocks.
func (d *device) onShrunk(ctx actor.Context, msg *messages.KVShrunk) {
	lease := msg.GetLease()
	z := d.resizing[lease]
	switch {
	case z != nil && z.done != nil: // the replica learns the result when the resize ends
	case z == nil || z.attempt != msg.GetAttempt():
		if m, held := d.held[lease]; held && ctx.Sender() != nil {
			ctx.Send(ctx.Sender(), &messages.GrowKV{Lease: lease, Blocks: uint32(m.KVBlocks)})
		}
	case msg.GetRefused() != nil:
		d.abortShrink(ctx, lease, z, msg.GetRefused().GetDetail())
	default:
		d.startResize(ctx, lease, z)
	}
}

// startResize starts a job that resizes the memory.
func (d *device) startResize(ctx actor.Context, lease string, z *resize) {
	models, blocks, note := d.Models, z.blocks, resized{incarnation: d.incarnation, lease: lease, attempt: z.attempt}
	z.done = supervise.Job(ctx, d.lifetime,
		func(life context.Context) (residency.Loaded, error) {
			if err := life.Err(); err != nil {
				return residency.Loaded{}, err
			}
			return models.Resize(lease, blocks)
		},
		func(m residency.Loaded, err error) any {
			note.model, note.err = m, err
			return &note
		})
}

// onResized updates the ledger and notifies the replica and the requesters.
func (d *device) onResized(ctx actor.Context, msg *resized) {
	z := d.resizing[msg.lease]
	if msg.incarnation != d.incarnation || z == nil || z.attempt != msg.attempt {
		return
	}
	delete(d.resizing, msg.lease)
	if msg.err == nil {
		msg.model.AdapterPages = d.held[msg.lease].AdapterPages // changed by adaptersLeased alone
		d.held[msg.lease] = msg.model
	} else {
		d.notResizable[msg.lease] = errors.Is(msg.err, errors.ErrUnsupported)
		d.Log.Warn().Err(msg.err).Str("lease", msg.lease).Msg("resizing KV memory failed")
	}
	m := d.held[msg.lease]
	if _, short := d.ledger.Resize(m.Lease, "kv", int64(m.KVBlocks)*m.KVBlockBytes); short != nil {
		panic("gpu: " + d.Name + " holds more memory than it has: " + short.Error())
	}
	ctx.Send(d.hbm, &messages.BlocksResized{Lease: m.Lease, Blocks: uint32(m.KVBlocks)})
	ctx.Send(z.replica, &messages.GrowKV{Lease: m.Lease, Blocks: uint32(m.KVBlocks)})
	for _, a := range z.requesters {
		ctx.Send(a.replyTo, d.loadedResult(a.requestID, m, &messages.SwitchMetrics{Source: "device"}, true))
	}
	if errors.Is(msg.err, cuda.ErrDeviceLost) {
		d.startQuarantine(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.err.Error())
	}
	d.retryWaiting(ctx)
}

// retryWaiting retries the loads that wait for memory, oldest first, then the adapter leases.
func (d *device) retryWaiting(ctx actor.Context) {
	var waiting []*load
	for _, l := range d.loading {
		if l.waiting {
			waiting = append(waiting, l)
		}
	}
	slices.SortFunc(waiting, func(a, b *load) int { return a.started.Compare(b.started) })
	for _, l := range waiting {
		d.start(ctx, l)
	}
	for _, lease := range slices.Sorted(maps.Keys(d.adapterLeases)) {
		if a := d.adapterLeases[lease]; a.done == nil {
			d.startAdapterLease(ctx, lease, a)
		}
	}
}

// distributeFree gives free memory to replicas below their share, and then to those that want more,
// after distributeInterval without other demand.
func (d *device) distributeFree(ctx actor.Context) {
	if len(d.loading)+len(d.freeing)+len(d.resizing) > 0 || d.quarantine != nil {
		d.lastDemand = time.Now()
	}
	if time.Since(d.lastDemand) < distributeInterval {
		return
	}
	for _, g := range hbm.Grow(int(d.ledger.Free()/hbm.PageBytes), d.resizablePools()) {
		m, u := d.held[g.Owner], d.kvUsers[g.Owner]
		pages := hbm.PagesOf(int64(m.KVBlocks)*m.KVBlockBytes) + g.Pages
		most := max(m.KVBlocks+int(u.report.GetWantedBlocks()), m.Info.KVSize(m.LoadSpec).Max())
		blocks := min(int(int64(pages)*hbm.PageBytes/m.KVBlockBytes), most)
		if blocks <= m.KVBlocks {
			continue
		}
		if _, short := d.ledger.Resize(g.Owner, "kv", int64(blocks)*m.KVBlockBytes); short != nil {
			panic(fmt.Sprintf("gpu: %s grants %d pages that are not free: %v", d.Name, g.Pages, short))
		}
		d.attempt++
		d.resizing[g.Owner] = &resize{attempt: d.attempt, blocks: blocks, replica: u.replica}
		d.startResize(ctx, g.Owner, d.resizing[g.Owner])
	}
}
