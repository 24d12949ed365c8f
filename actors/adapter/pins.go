package adapter

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/messages"
)

// onPin pins an adapter for a request. The result is sent once the adapter is loaded.
func (p *pool) onPin(ctx actor.Context, msg *messages.PinAdapter) {
	id, key := msg.GetRequestId(), msg.GetAdapter().Key()
	p.know(msg.GetAdapter()).requested = true
	state, why := p.machine.Pin(id, key)
	if why != nil {
		p.refuse(ctx, id, refusedByPool(why))
	} else {
		p.pins[id] = key
	}
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
	if key, ok := p.pins[id]; ok {
		delete(p.pins, id)
		p.machine.Unpin(id)
		p.perform(ctx, key)
	}
}
