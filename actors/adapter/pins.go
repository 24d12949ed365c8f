package adapter

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/messages"
)

func (p *pool) onPin(ctx actor.Context, msg *messages.PinAdapter) {
	if k := p.entry(ctx, msg.GetAdapter()); k.inspecting {
		k.waiting = append(k.waiting, msg)
		return
	}
	p.pin(ctx, msg)
}

// pin pins an adapter for a request. The result follows when the adapter is loaded.
func (p *pool) pin(ctx actor.Context, msg *messages.PinAdapter) {
	id, key := msg.GetRequestId(), msg.GetAdapter().Key()
	state, why := p.machine.Pin(id, key)
	if why != nil {
		p.refuse(ctx, id, refusedByPool(why))
		return
	}
	p.pins[id] = key
	if state == lora.Active {
		p.sendPinned(ctx, id, key)
	}
	p.perform(ctx, key)
}

func (p *pool) sendPinned(ctx actor.Context, id, key string) {
	ctx.Request(ctx.Parent(), &messages.PinAdapterResult{RequestId: id, Outcome: &messages.PinAdapterResult_Pinned{
		Pinned: &messages.AdapterPinned{Adapter: key, Pages: uint32(p.known[key].file.Layout.Pages())},
	}})
}

func (p *pool) refuse(ctx actor.Context, id string, why *messages.Refused) {
	ctx.Request(ctx.Parent(), &messages.PinAdapterResult{RequestId: id,
		Outcome: &messages.PinAdapterResult_Refused{Refused: why}})
}

func (p *pool) onUnpin(ctx actor.Context, msg *messages.UnpinAdapter) {
	id := msg.GetRequestId()
	key, ok := p.pins[id]
	if !ok {
		p.dropWaiting(id)
		return
	}
	delete(p.pins, id)
	p.machine.Unpin(id)
	p.perform(ctx, key)
}

// dropWaiting removes a request that ended before its adapter's folder was inspected.
func (p *pool) dropWaiting(id string) {
	for _, k := range p.known {
		for i, a := range k.waiting {
			if a.GetRequestId() == id {
				k.waiting = append(k.waiting[:i:i], k.waiting[i+1:]...)
				return
			}
		}
	}
}
