package hostcache

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/engine/residency"
	"troupe/messages"
)

// recoverAdapter tells a new machine about the image of an adapter. One without names is not found by any
// load; it goes with its last reader.
func (c *cache) recoverAdapter(ctx actor.Context, i residency.HeldImage) {
	c.perform(ctx, c.machine.Recovered(i.Key, i.Bytes, false))
	c.attach(ctx, i)
	for _, ticket := range i.Readers {
		c.perform(ctx, c.machine.Open(i.Key, ticket))
	}
	why := i.Revoked
	if why == "" && len(i.Names) == 0 {
		why = "its adapter was deleted"
	}
	c.models[i.Key] = model{path: i.Adapter.File.Path, adapter: "unknown"}
	if len(i.Names) > 0 {
		c.models[i.Key] = model{i.Names[0].Model, i.Adapter.File.Path, i.Names[0].Adapter}
	}
	if why != "" {
		c.revokeImage(ctx, i.Key, why)
	}
}

// attach tells a new machine the names of an image.
func (c *cache) attach(ctx actor.Context, i residency.HeldImage) {
	for _, name := range i.Names {
		c.perform(ctx, c.machine.Attach(i.Key, name))
		c.models[i.Key] = model{name: name.Model, adapter: name.Adapter}
	}
}

func (c *cache) revokeImage(ctx actor.Context, key core.Key, why string) {
	c.Images.Revoke(key, why)
	c.perform(ctx, c.machine.Revoke(key, why))
}

// useAdapter answers a load of an adapter, or lets it wait until another one has filled the image. The
// ticket has the ID of the request, since the requester repeats it.
func (c *cache) useAdapter(ctx actor.Context, w waitingUse) {
	id, msg := w.use.GetRequestId(), w.use
	if c.Images.Issued(id) {
		return // the answer is on its way
	}
	answer := &messages.UseImageResult{RequestId: id}
	name := core.Name{Model: msg.GetModel(), Adapter: msg.GetAdapter(), Layout: msg.GetLayout()}
	key, there := c.machine.Find(name)
	switch {
	case there && c.machine.State(key) == core.Filling:
		if _, waits := c.waiting[id]; !waits {
			c.perform(ctx, c.machine.Await(key, id))
		}
		c.waiting[id] = w
		answer.Waiting = true
	case there:
		answer.Ready, answer.Ticket = true, id
		c.perform(ctx, c.machine.Open(key, id))
	default:
		key = core.Key{Digest: "load-" + id, Layout: name.Layout}
		effects := c.machine.Fill(key, int64(msg.GetBytes()), false)
		c.perform(ctx, effects)
		if refusal, ok := effects[len(effects)-1].(core.Refuse); ok {
			answer.Refused = &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: noRoom(refusal)}
			c.onShortage(name, answer.GetRefused().GetDetail())
			break
		}
		c.perform(ctx, c.machine.Attach(key, name))
		answer.Ticket = id
	}
	if answer.GetTicket() != "" {
		c.models[key] = model{msg.GetModel(), msg.GetPath(), msg.GetAdapter()}
		c.Images.Issue(id, key, !answer.GetReady(), supervise.Now(ctx).Add(claimTimeout))
	}
	ctx.Send(w.from, answer)
}

// onShortage counts a load for which there is no room. The first of several is an event.
func (c *cache) onShortage(name core.Name, detail string) {
	c.refused++
	if !c.shortage {
		c.Publish("adapter.uncached", name.Model+":"+name.Adapter, "read from its files: "+detail)
	}
	c.shortage = true
}

// proceed answers a request whose image is no longer being filled. If it was not filled, the first load that
// has waited does that.
func (c *cache) proceed(ctx actor.Context, id string) {
	w, waits := c.waiting[id]
	delete(c.waiting, id)
	switch {
	case !waits:
	case w.use.GetAdapter() != "":
		c.useAdapter(ctx, w)
	default:
		c.useWeights(ctx, w)
	}
}

// onEndUse ends a request whose load will not begin.
func (c *cache) onEndUse(ctx actor.Context, msg *messages.EndImageUse) {
	delete(c.waiting, msg.GetRequestId())
	c.Images.End(msg.GetRequestId(), "its load did not begin")
	c.sync(ctx)
}

// forgetDeleted removes the names of adapters that are no longer registered.
func (c *cache) forgetDeleted(ctx actor.Context) {
	if c.AdapterDeleted == nil {
		return
	}
	for _, i := range c.machine.Images() {
		for _, name := range i.Names {
			if !c.AdapterDeleted(name.Model, name.Adapter) {
				continue
			}
			const why = "its adapter was deleted"
			c.Images.Detach(name)
			c.perform(ctx, c.machine.Forget(name, why))
			if c.machine.State(i.Key) == core.Revoked {
				c.Images.Revoke(i.Key, why)
			}
		}
	}
}

// dropUnnamed drops an image of an adapter that was deleted while it was filled.
func (c *cache) dropUnnamed(ctx actor.Context, key core.Key) {
	for _, i := range c.machine.Images() {
		if i.Key == key && i.State == core.Ready && len(i.Names) == 0 {
			c.revokeImage(ctx, key, "its adapter was deleted")
		}
	}
}

// namesOf returns the adapters of an image.
func namesOf(i core.Image) (all []string) {
	for _, name := range i.Names {
		all = append(all, name.Model+":"+name.Adapter)
	}
	return all
}
