package hostcache

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/core/units"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// onStarted takes over what an earlier incarnation has left.
func (c *cache) onStarted(ctx actor.Context) {
	c.lifetime, c.cancel = context.WithCancel(context.Background())
	c.stored = make(map[string]*messages.DeploymentSpec)
	c.models, c.waiting = make(map[core.Key]model), make(map[string]waitingUse)
	c.machine = core.New(c.Budget)
	held := c.Images.Held()
	c.recover(ctx, held)
	c.recoverDisk(ctx, held)
	root, self, incarnation := ctx.ActorSystem().Root, ctx.Self(), c.incarnation
	c.Images.OnEnded(func() { root.Send(self, &ended{incarnation}) })
	c.sync(ctx)
	ctx.Request(c.Deployments, &messages.GetDeploymentSpec{})
	supervise.After(ctx, tickInterval, &tick{c.incarnation})
}

// recover tells a new machine about the images that are there. Those that are being filled come last,
// since they must not evict others.
func (c *cache) recover(ctx actor.Context, held []residency.HeldImage) {
	for _, i := range held {
		switch {
		case i.Filling: // or on disk
			continue
		case i.Model == nil && i.Adapter == nil: // no load got a ticket to fill it
			c.free(ctx, i.Key)
			continue
		}
		if i.Adapter != nil {
			c.recoverAdapter(ctx, i)
			continue
		}
		c.perform(ctx, c.machine.Recovered(i.Key, i.Bytes, true)) // pinned until the stored deployments are known
		for _, ticket := range i.Readers {
			c.perform(ctx, c.machine.Open(i.Key, ticket))
		}
		c.models[i.Key] = model{path: i.Model.Path}
		if i.Revoked != "" {
			c.perform(ctx, c.machine.Revoke(i.Key, i.Revoked))
		}
	}
	for _, i := range held {
		if i.OnDisk {
			continue
		}
		if i.Filling {
			c.perform(ctx, c.machine.Fill(i.Key, i.Bytes, len(i.Names) == 0))
			c.attach(ctx, i)
		}
		if i.Filling && c.machine.State(i.Key) == core.Absent {
			c.free(ctx, i.Key)
		}
	}
}

func (c *cache) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != c.incarnation {
		return
	}
	c.Images.Expire(supervise.Now(ctx))
	c.forgetDeleted(ctx)
	c.sync(ctx)
	supervise.After(ctx, tickInterval, msg)
}

// onUse answers a gpu actor that is about to load weights, or to park them, or a slot of an adapter pool
// that is about to load an adapter.
func (c *cache) onUse(ctx actor.Context, msg *messages.UseImage) {
	if msg.GetAdapter() != "" {
		c.useAdapter(ctx, waitingUse{ctx.Sender(), msg})
		return
	}
	c.useWeights(ctx, waitingUse{ctx.Sender(), msg})
}

// useWeights answers a load of weights, or lets weights that are parked wait until their image on disk is
// written.
func (c *cache) useWeights(ctx actor.Context, w waitingUse) {
	msg := w.use
	answer := &messages.UseImageResult{RequestId: msg.GetRequestId()}
	ticket := supervise.RuntimeOf(ctx.ActorSystem()).ID()
	key := core.Key{Digest: cmp.Or(msg.GetRevisionDigest(), "load-"+ticket), Layout: msg.GetLayout()}
	switch c.machine.State(key) {
	case core.Ready:
		answer.Ready = true
		c.touch(ctx, key)
		c.perform(ctx, c.machine.Open(key, ticket))
	case core.Absent:
		effects := c.machine.Fill(key, int64(msg.GetBytes()), c.parked(key))
		c.perform(ctx, effects)
		if refusal, ok := effects[len(effects)-1].(core.Refuse); ok {
			answer.Refused = &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: noRoom(refusal)}
			if msg.GetPark() && c.parkOnDisk(ctx, w, key, answer) {
				return
			}
		}
	default:
		answer.Refused = &messages.Refused{Reason: messages.Reason_REASON_NOT_READY,
			Detail: fmt.Sprintf("the image of revision %s is %s", digest.Short(key.Digest), c.machine.State(key))}
	}
	if answer.GetRefused() == nil {
		c.models[key] = model{name: msg.GetModel(), path: msg.GetPath()}
		c.Images.Issue(ticket, key, !answer.GetReady(), supervise.Now(ctx).Add(claimTimeout))
		answer.Ticket = ticket
	}
	ctx.Send(w.from, answer)
}

func noRoom(r core.Refuse) string {
	u := r.Usage
	return fmt.Sprintf("no room for an image of %s in the host cache: %s of %s are used, %s of them by pinned images "+
		"and %s by images in use; activate or delete parked models, or start the node with a larger --weights-dram",
		units.FormatBytes(r.Bytes), units.FormatBytes(u.Used), units.FormatBytes(u.Budget),
		units.FormatBytes(u.Pinned), units.FormatBytes(u.InUse))
}

// sync passes the outcomes of tickets that have ended to the machine.
func (c *cache) sync(ctx actor.Context) {
	for _, t := range c.Images.Ended() {
		switch {
		case t.OnDisk:
			c.diskTicketEnded(ctx, t)
		case t.Fill && t.Digest != "":
			to := core.Key{Digest: t.Digest, Layout: t.Key.Layout}
			c.models[to] = c.models[t.Key]
			c.shortage = c.shortage && c.models[to].adapter == ""
			c.perform(ctx, c.machine.Filled(t.Key, t.Digest))
			c.logImage(to, "kept in host memory", "")
			if t.Adapter {
				c.dropUnnamed(ctx, to)
			}
		case t.Fill:
			c.perform(ctx, c.machine.Failed(t.Key, cmp.Or(t.Why, "the load ended without it")))
		default:
			if t.Damaged != "" {
				c.revoke(ctx, t)
			}
			c.perform(ctx, c.machine.Close(t.Key, t.ID))
		}
		c.Images.Forget(t.ID)
	}
	c.syncDisk(ctx)
	c.forget()
	c.pin(ctx)
}

// revoke revokes an image that a load found damaged.
func (c *cache) revoke(ctx actor.Context, t residency.Ticket) {
	m, kind, subject := c.models[t.Key], "weights", c.models[t.Key].name
	if m.adapter != "" {
		kind, subject = "adapter", m.name+":"+m.adapter
	}
	c.Log.Error().Str("image of", subject).Str("content", digest.Short(t.Key.Digest)).
		Str("detail", t.Damaged).Msg("image damaged; dropped")
	c.Publish(kind+".damaged", subject, t.Damaged)
	c.Images.Revoke(t.Key, t.Damaged)
	c.perform(ctx, c.machine.Revoke(t.Key, t.Damaged))
}

// forget drops what is known of images that are gone.
func (c *cache) forget() {
	for key := range c.models {
		if c.machine.State(key) == core.Absent && !c.onDisk(key) {
			delete(c.models, key)
		}
	}
}

func (c *cache) onList(ctx actor.Context, msg *messages.ListDeploymentsResult) {
	for name := range c.stored {
		if !slices.Contains(msg.GetNames(), name) {
			delete(c.stored, name)
		}
	}
	if !c.synced && c.disk != nil {
		clear(c.disk.tried) // there may be room for them now
	}
	c.synced = true
	c.pin(ctx)
}

// parked reports whether a deployment that is parked needs an image.
func (c *cache) parked(key core.Key) bool {
	for _, spec := range c.stored {
		if spec.Parks() && spec.GetRevisionDigest() == key.Digest {
			return true
		}
	}
	return false
}

// pin pins the images of parked deployments, and no others. It does nothing before all deployments
// are known: what an earlier incarnation has left stays pinned until then.
func (c *cache) pin(ctx actor.Context) {
	if !c.synced {
		return
	}
	for _, i := range c.machine.Images() {
		switch parked := c.parked(i.Key); {
		case parked && !i.Pinned:
			c.perform(ctx, c.machine.Pin(i.Key))
		case !parked && i.Pinned:
			c.perform(ctx, c.machine.Unpin(i.Key))
		}
	}
	c.pinOnDisk(ctx)
}
