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
	yieldWithin = 5 * time.Second        // for a load to get the memory that others give up
	askEvery    = 500 * time.Millisecond // a replica to shrink
	spreadEvery = time.Second            // and after nothing else wanted the memory for as long
	heardWithin = 3 * time.Second        // of a replica, or nothing is asked of it
)

// user is what a replica last said about the KV memory of its lease.
type user struct {
	replica *actor.PID
	report  *messages.KVReport
	heard   time.Time
}

// resize is a lease on its way to another number of blocks.
type resize struct {
	attempt uint64
	blocks  int
	replica *actor.PID
	until   time.Time
	done    <-chan struct{} // closed when its job has ended; nil while the replica still uses what it is to give up
	askers  []asker         // who asked for the model meanwhile
}

// askShrink, resized and spread are notes to self.
type (
	askShrink struct {
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
	spread struct{ incarnation uint64 }
)

func (d *device) receiveResize(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *messages.KVReport:
		d.onReport(ctx, msg)
	case *messages.KVShrunk:
		d.onShrunk(ctx, msg)
	case *askShrink:
		if z := d.resizing[msg.lease]; msg.incarnation == d.incarnation && z != nil && z.attempt == msg.attempt && z.done == nil {
			d.askShrink(ctx, msg.lease, z)
		}
	case *resized:
		d.onResized(ctx, msg)
	case *spread:
		if msg.incarnation == d.incarnation {
			d.place(ctx)
			d.spread(ctx)
			supervise.After(ctx, spreadEvery, msg)
		}
	case *messages.LeaseAdapters:
		d.onLeaseAdapters(ctx, msg)
	case *adaptersLeased:
		d.onAdaptersLeased(ctx, msg)
	default:
		d.receiveHealth(ctx)
	}
}

// onReport: a replica that knows of fewer blocks than there are is told again.
func (d *device) onReport(ctx actor.Context, msg *messages.KVReport) {
	m, held := d.held[msg.GetLease()]
	if !held || ctx.Sender() == nil {
		return
	}
	d.users[msg.GetLease()] = user{ctx.Sender(), msg, time.Now()}
	if d.resizing[msg.GetLease()] == nil && int(msg.GetBlocks()) != m.KVBlocks {
		ctx.Send(ctx.Sender(), &messages.GrowKV{Lease: m.Lease, Blocks: uint32(m.KVBlocks)})
	}
	d.place(ctx)
}

// room sees to it that so many pages are free for a lease, as far as KV memory can give way. It reports false while that is under way, and
// notes until when, at most.
func (d *device) room(ctx actor.Context, lease string, need int, until *time.Time) bool {
	free := int(d.ledger.Free() / hbm.PageBytes)
	if need <= free || !until.IsZero() && !time.Now().Before(*until) {
		return true
	}
	if until.IsZero() {
		*until = time.Now().Add(yieldWithin)
	}
	if len(d.resizing) > 0 {
		return false
	}
	pools := d.pools()
	gifts, why, ok := hbm.Yield(need, free, pools)
	if !ok && d.awaitsYield(need-free, pools, until) {
		return false
	}
	d.Log.Info().Str("lease", lease).Bool("ok", ok).Str("why", why).Msg("short of memory")
	if !ok {
		return true
	}
	for _, g := range gifts {
		m := d.held[g.Owner]
		left := int64(hbm.PagesOf(int64(m.KVBlocks)*m.KVBlockBytes)-g.Pages) * hbm.PageBytes
		d.attempt++
		z := &resize{attempt: d.attempt, blocks: int(left / m.KVBlockBytes), replica: d.users[g.Owner].replica, until: *until}
		d.resizing[g.Owner] = z
		d.askShrink(ctx, g.Owner, z)
	}
	return false
}

// pools are those that can be resized now.
func (d *device) pools() (all []hbm.Pool) {
	shares := d.shares()
	for lease, u := range d.users {
		m, held := d.held[lease]
		if !held || d.fixed[lease] || d.resizing[lease] != nil || d.freeing[lease] != nil || time.Since(u.heard) > heardWithin {
			continue
		}
		pagesOf := func(blocks uint32) int { return hbm.PagesOf(int64(blocks) * m.KVBlockBytes) }
		pages := pagesOf(uint32(m.KVBlocks))
		all = append(all, hbm.Pool{
			Owner: lease, Priority: int(u.report.GetPriority()), LastUsed: u.report.GetLastUsed().AsTime().UnixNano(), Pages: pages,
			Min: max(pagesOf(u.report.GetLeast()), shares[lease].promised), Share: shares[lease].all,
			Wanted: pagesOf(uint32(m.KVBlocks)+u.report.GetWants()) - pages,
		})
	}
	return all
}

// askShrink asks a replica, again and again, until it answers or time is up.
func (d *device) askShrink(ctx actor.Context, lease string, z *resize) {
	if !time.Now().Before(z.until) {
		d.keepKV(ctx, lease, z, "it did not answer within "+yieldWithin.String())
		return
	}
	ctx.Request(z.replica, &messages.ShrinkKV{Lease: lease, Blocks: uint32(z.blocks), Attempt: z.attempt})
	supervise.After(ctx, askEvery, &askShrink{d.incarnation, lease, z.attempt})
}

// keepKV ends a shrink that came to nothing. Its replica is asked for nothing until it reports again.
func (d *device) keepKV(ctx actor.Context, lease string, z *resize, why string) {
	d.Log.Warn().Str("lease", lease).Str("why", why).Msg("KV memory not given up")
	delete(d.resizing, lease)
	delete(d.users, lease)
	ctx.Send(z.replica, &messages.GrowKV{Lease: lease, Blocks: uint32(d.held[lease].KVBlocks)})
	d.place(ctx)
}

// onShrunk: nobody uses those blocks any more, and no step runs. An answer that nobody waits for is told what there is.
func (d *device) onShrunk(ctx actor.Context, msg *messages.KVShrunk) {
	lease := msg.GetLease()
	z := d.resizing[lease]
	switch {
	case z != nil && z.done != nil: // it is told when the memory is resized
	case z == nil || z.attempt != msg.GetAttempt():
		if m, held := d.held[lease]; held && ctx.Sender() != nil {
			ctx.Send(ctx.Sender(), &messages.GrowKV{Lease: lease, Blocks: uint32(m.KVBlocks)})
		}
	case msg.GetRefused() != nil:
		d.keepKV(ctx, lease, z, msg.GetRefused().GetDetail())
	default:
		d.resize(ctx, lease, z)
	}
}

// resize has the memory resized, in a job.
func (d *device) resize(ctx actor.Context, lease string, z *resize) {
	models, blocks, note := d.Models, z.blocks, resized{incarnation: d.incarnation, lease: lease, attempt: z.attempt}
	z.done = supervise.Job(ctx, d.life,
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

// onResized brings the ledger in line with what is there, and tells everybody.
func (d *device) onResized(ctx actor.Context, msg *resized) {
	z := d.resizing[msg.lease]
	if msg.incarnation != d.incarnation || z == nil || z.attempt != msg.attempt {
		return
	}
	delete(d.resizing, msg.lease)
	if msg.err == nil {
		msg.model.AdapterPages = d.held[msg.lease].AdapterPages // another note tells of those
		d.held[msg.lease] = msg.model
	} else {
		d.fixed[msg.lease] = errors.Is(msg.err, errors.ErrUnsupported)
		d.Log.Warn().Err(msg.err).Str("lease", msg.lease).Msg("KV memory not resized")
	}
	m := d.held[msg.lease]
	if _, short := d.ledger.Resize(m.Lease, "kv", int64(m.KVBlocks)*m.KVBlockBytes); short != nil {
		panic("gpu: " + d.Name + " holds more than it has: " + short.Error())
	}
	ctx.Send(d.hbm, &messages.BlocksResized{Lease: m.Lease, Blocks: uint32(m.KVBlocks)})
	ctx.Send(z.replica, &messages.GrowKV{Lease: m.Lease, Blocks: uint32(m.KVBlocks)})
	for _, a := range z.askers {
		ctx.Send(a.replyTo, d.granted(a.requestID, m, &messages.SwitchMetrics{Source: "device"}, true))
	}
	if errors.Is(msg.err, cuda.ErrDeviceLost) {
		d.condemn(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.err.Error())
	}
	d.place(ctx)
}

// place goes on with the loads that wait for memory, the oldest first, and then with the adapters that do.
func (d *device) place(ctx actor.Context) {
	var waiting []*load
	for _, l := range d.loading {
		if l.waits {
			waiting = append(waiting, l)
		}
	}
	slices.SortFunc(waiting, func(a, b *load) int { return a.began.Compare(b.began) })
	for _, l := range waiting {
		d.start(ctx, l)
	}
	for _, lease := range slices.Sorted(maps.Keys(d.adapting)) {
		if a := d.adapting[lease]; a.done == nil {
			d.adapt(ctx, lease, a)
		}
	}
}

// spread gives free memory back to replicas that have less than their share, and to those that are short of it, once
// nothing else has wanted it for a while.
func (d *device) spread(ctx actor.Context) {
	if len(d.loading)+len(d.freeing)+len(d.resizing) > 0 || d.quarantine != nil {
		d.busy = time.Now()
	}
	if time.Since(d.busy) < spreadEvery {
		return
	}
	for _, g := range hbm.Grow(int(d.ledger.Free()/hbm.PageBytes), d.pools()) {
		m, u := d.held[g.Owner], d.users[g.Owner]
		pages := hbm.PagesOf(int64(m.KVBlocks)*m.KVBlockBytes) + g.Pages
		most := max(m.KVBlocks+int(u.report.GetWants()), m.Info.KVSize(m.LoadSpec).Max())
		blocks := min(int(int64(pages)*hbm.PageBytes/m.KVBlockBytes), most)
		if blocks <= m.KVBlocks {
			continue
		}
		if _, short := d.ledger.Resize(g.Owner, "kv", int64(blocks)*m.KVBlockBytes); short != nil {
			panic(fmt.Sprintf("gpu: %s grants %d pages that it has not: %v", d.Name, g.Pages, short))
		}
		d.attempt++
		d.resizing[g.Owner] = &resize{attempt: d.attempt, blocks: blocks, replica: u.replica}
		d.resize(ctx, g.Owner, d.resizing[g.Owner])
	}
}
