package hostcache

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

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
			c.logImage(e.Key, "dropped", e.Why)
			c.free(ctx, e.Key)
		case core.Attach:
			c.Images.Attach(e.Key, e.Name)
		case core.Proceed:
			c.proceed(ctx, e.Waiter)
		case core.Refuse:
			c.Log.Info().Str("revision", digest.Short(e.Key.Digest)).Int64("bytes", e.Bytes).
				Int64("used", e.Usage.Used).Int64("pinned", e.Usage.Pinned).Int64("in_use", e.Usage.InUse).
				Msg("no room for an image in host memory")
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

// logImage logs what became of an image. Those of adapters come and go often.
func (c *cache) logImage(key core.Key, what, why string) {
	m, level, of := c.models[key], zerolog.InfoLevel, "weights"
	if m.adapter != "" {
		level, of = zerolog.DebugLevel, "an adapter"
	}
	event := c.Log.WithLevel(level).Str("model", m.name).Str("content", digest.Short(key.Digest))
	if m.adapter != "" {
		event = event.Str("adapter", m.adapter)
	}
	if why != "" {
		event = event.Str("why", why)
	}
	event.Msg("image of " + of + " " + what)
}

// status describes the images; those of adapters one by one only if asked for.
func (c *cache) status(adapters bool) *messages.HostCacheStatus {
	u := c.machine.Usage()
	s := &messages.HostCacheStatus{
		BudgetBytes: uint64(u.Budget), UsedBytes: uint64(u.Used), PinnedBytes: uint64(u.Pinned),
		InUseBytes: uint64(u.InUse), AdaptersRefused: c.refused,
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
		if m.adapter != "" {
			s.AdapterCopies++
			s.AdapterBytes += uint64(i.Bytes)
			if !adapters {
				continue
			}
			image.Adapters = namesOf(i)
		}
		s.Images = append(s.Images, image)
	}
	s.Disk = c.diskStatus()
	return s
}
