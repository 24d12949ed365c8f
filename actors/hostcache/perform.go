package hostcache

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// perform carries out the machine's effects, in order.
func (c *cache) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.Reserve:
			c.Images.Reserve(e.Key, e.Bytes)
		case core.Rename:
			c.Images.Rename(e.Key, e.As)
		case core.Free:
			c.Log.Info().Str("model", c.models[e.Key].name).Str("revision", digest.Short(e.Key.Digest)).
				Str("why", e.Why).Msg("image of weights dropped")
			c.free(ctx, e.Key)
		case core.Refuse:
			c.Log.Info().Str("revision", digest.Short(e.Key.Digest)).Int64("bytes", e.Bytes).
				Int64("used", e.Usage.Used).Int64("pinned", e.Usage.Pinned).Int64("in_use", e.Usage.InUse).
				Msg("no room for an image of weights")
		case core.Ignored:
			c.Log.Debug().Str("image", e.Key.Digest).Stringer("state", e.State).Stringer("event", e.Event).
				Str("why", e.Why).Msg("event ignored by the host cache")
		default:
			panic(fmt.Sprintf("hostcache: unknown effect %T", effect))
		}
	}
}

// free removes an image. A job frees its memory, since giving page-locked memory back takes time.
func (c *cache) free(ctx actor.Context, key core.Key) {
	release := c.Images.Free(key)
	if release == nil {
		return
	}
	supervise.Job(ctx, c.lifetime,
		func(context.Context) (struct{}, error) { return struct{}{}, release() },
		func(_ struct{}, err error) any { return &freed{key, err} })
}

func (c *cache) status() *messages.HostCacheStatus {
	u := c.machine.Usage()
	s := &messages.HostCacheStatus{
		BudgetBytes: uint64(u.Budget), UsedBytes: uint64(u.Used), PinnedBytes: uint64(u.Pinned),
		InUseBytes: uint64(u.InUse),
	}
	for _, i := range c.machine.Images() {
		m := c.models[i.Key]
		image := &messages.HostImage{
			Model: m.name, Path: m.path, RevisionDigest: i.Digest, Layout: i.Layout, Bytes: uint64(i.Bytes),
			State: i.State.String(), Pinned: i.Pinned, Readers: uint32(i.Readers),
		}
		if i.State == core.Filling {
			image.RevisionDigest = ""
		}
		s.Images = append(s.Images, image)
	}
	s.Disk = c.diskStatus()
	return s
}
