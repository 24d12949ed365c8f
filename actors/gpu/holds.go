package gpu

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

// holdsTimeout is how long the answer to GetGpu waits to learn where the node has the weights of a model, which
// may require reading its folder.
const holdsTimeout = 200 * time.Millisecond

// sought is a request for the status that waits until it is known where the node has some weights.
type sought struct {
	incarnation uint64
	number      uint64
	source      string
}

// onGet answers with the status. A deployment that places a replica also learns where the node has the
// weights, unless they are on the device. While their revision is not known, the first replica determines
// it, and no node is nearer than another.
func (d *device) onGet(ctx actor.Context, msg *messages.GetGpu) {
	s := d.status(ctx)
	here := slices.ContainsFunc(s.GetWeights(), func(w *messages.GpuWeights) bool {
		return w.GetRevisionDigest() != "" && w.GetRevisionDigest() == msg.GetRevisionDigest()
	})
	if msg.GetRevisionDigest() == "" || here {
		ctx.Respond(s)
		return
	}
	if d.seekers == nil {
		d.seekers = make(map[uint64]*actor.PID)
	}
	d.sought++
	d.seekers[d.sought] = ctx.Sender()
	models, number, incarnation := d.Models, d.sought, d.incarnation
	supervise.After(ctx, holdsTimeout, &sought{incarnation: incarnation, number: number})
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (string, error) {
			return models.Holds(msg.GetPath(), msg.GetRevisionDigest()), nil
		},
		func(source string, _ error) any { return &sought{incarnation, number, source} })
}

func (d *device) onSought(ctx actor.Context, msg *sought) {
	to, waits := d.seekers[msg.number]
	if msg.incarnation != d.incarnation || !waits {
		return
	}
	delete(d.seekers, msg.number)
	s := d.status(ctx)
	s.WeightsSource = msg.source
	if to != nil {
		ctx.Send(to, s)
	}
}
