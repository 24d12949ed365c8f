package hostcache

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/core/units"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// diskImages decides on the images on disk, with a machine of their own. Each image of the host cache is
// written there once, and so are weights on devices that have none; one at a time.
type diskImages struct {
	machine *core.Machine
	epoch   uint64            // of this incarnation
	tried   map[core.Key]bool // what was written, or had no room
	writing bool
}

// writeRetryInterval is the time after which an image that could not be written is tried again.
const writeRetryInterval = time.Minute

// Messages to self.
type (
	written struct {
		incarnation uint64
		key         core.Key
		err         error
	}
	retryWrite struct {
		incarnation uint64
		key         core.Key
	}
	removed struct {
		key core.Key
		err error
	}
)

// recoverDisk tells a new machine which images are on disk.
func (c *cache) recoverDisk(ctx actor.Context, inMemory []residency.HeldImage) {
	if c.Disk == nil {
		return
	}
	held, epoch := c.Disk.Held()
	c.disk = &diskImages{machine: core.New(c.DiskBudget), epoch: epoch, tried: make(map[core.Key]bool)}
	for _, i := range held {
		if _, known := c.models[i.Key]; !known {
			c.models[i.Key] = model{path: i.Path}
		}
		// Pinned until the stored deployments are known.
		c.performDisk(ctx, c.disk.machine.Recovered(i.Key, i.Bytes, true))
	}
	for _, i := range inMemory {
		if i.OnDisk {
			c.performDisk(ctx, c.disk.machine.Fill(i.Key, i.Bytes, true))
		}
	}
}

func (c *cache) onDisk(key core.Key) bool {
	return c.disk != nil && c.disk.machine.State(key) != core.Absent
}

// touch notes the use of an image on disk.
func (c *cache) touch(ctx actor.Context, key core.Key) {
	if !c.onDisk(key) {
		return
	}
	const reader = "touch"
	c.performDisk(ctx, c.disk.machine.Open(key, reader))
	c.performDisk(ctx, c.disk.machine.Close(key, reader))
	c.Disk.Touch(key, supervise.Now(ctx))
}

// syncDisk passes on what loads did with images on disk, and writes the next image that is not there.
func (c *cache) syncDisk(ctx actor.Context) {
	if c.disk == nil {
		return
	}
	used, damaged := c.Disk.TakeUsed()
	for _, key := range slices.SortedFunc(maps.Keys(damaged), core.Key.Compare) {
		c.Log.Error().Str("model", c.models[key].name).Str("revision", digest.Short(key.Digest)).
			Str("detail", damaged[key]).Msg("image of weights on disk damaged; dropped")
		c.Publish("weights.damaged", c.models[key].name, "on disk: "+damaged[key])
		c.performDisk(ctx, c.disk.machine.Revoke(key, damaged[key]))
		delete(c.disk.tried, key)
	}
	for _, key := range used {
		c.touch(ctx, key)
	}
	for _, i := range c.machine.Images() {
		ofWeights := i.State == core.Ready && c.models[i.Key].adapter == ""
		if ofWeights && !c.onDisk(i.Key) && !c.disk.tried[i.Key] && !c.disk.writing {
			c.write(ctx, i.Key)
		}
	}
	loaded := c.writeLoaded(ctx)
	for key := range c.disk.tried {
		if c.machine.State(key) == core.Absent && !loaded[key] {
			delete(c.disk.tried, key)
		}
	}
}

// write starts a job that writes an image of the host cache to the disk. Like a load, it reads the image
// with a ticket.
func (c *cache) write(ctx actor.Context, key core.Key) {
	c.disk.tried[key] = true
	ticket := supervise.RuntimeOf(ctx.ActorSystem()).ID()
	c.perform(ctx, c.machine.Open(key, ticket))
	c.Images.Issue(ticket, key, false, supervise.Now(ctx).Add(claimTimeout))
	use := c.Images.Claim(ticket)
	if use == nil || use.Image() == nil {
		_ = use.Close() // the ticket ends
		return
	}
	image := use.Image()
	if !c.reserveOnDisk(ctx, key, image) {
		_ = use.Close()
		return
	}
	disk, epoch := c.Disk, c.disk.epoch
	c.startWrite(ctx, key, func(life context.Context) error {
		memory, err := use.Memory()
		if err == nil {
			err = disk.Write(life, epoch, image, memory)
		}
		return errors.Join(err, use.Close())
	})
}

// reserveOnDisk makes room for the file of an image, and reports whether there is some.
func (c *cache) reserveOnDisk(ctx actor.Context, key core.Key, image *engine.Image) bool {
	bytes, err := residency.FileBytes(image)
	if err != nil {
		c.Log.Warn().Err(err).Str("revision", digest.Short(key.Digest)).Msg("image of weights not kept on disk")
		return false
	}
	c.performDisk(ctx, c.disk.machine.Fill(key, bytes, c.parked(key)))
	return c.disk.machine.State(key) == core.Filling
}

// startWrite starts a job that writes an image, for which there is room.
func (c *cache) startWrite(ctx actor.Context, key core.Key, write func(life context.Context) error) {
	c.disk.writing = true
	incarnation := c.incarnation
	supervise.Job(ctx, c.lifetime,
		func(life context.Context) (struct{}, error) { return struct{}{}, write(life) },
		func(_ struct{}, err error) any { return &written{incarnation, key, err} })
}

func (c *cache) onWritten(ctx actor.Context, msg *written) {
	if msg.incarnation != c.incarnation {
		return
	}
	c.disk.writing = false
	if msg.err != nil {
		c.Log.Warn().Err(msg.err).Str("model", c.models[msg.key].name).Msg("image of weights not kept on disk")
		c.performDisk(ctx, c.disk.machine.Failed(msg.key, msg.err.Error()))
		supervise.After(ctx, writeRetryInterval, &retryWrite{c.incarnation, msg.key})
	} else {
		c.onFile(ctx, msg.key)
	}
	c.sync(ctx)
}

// onFile notes that the file of an image is complete.
func (c *cache) onFile(ctx actor.Context, key core.Key) {
	c.Log.Info().Str("model", c.models[key].name).Str("revision", digest.Short(key.Digest)).
		Msg("image of weights kept on disk")
	c.performDisk(ctx, c.disk.machine.Filled(key, key.Digest))
	c.Disk.Touch(key, supervise.Now(ctx))
}

// performDisk carries out the effects of the machine of the disk, in order.
func (c *cache) performDisk(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.Free:
			c.Log.Info().Str("model", c.models[e.Key].name).Str("revision", digest.Short(e.Key.Digest)).
				Str("why", e.Why).Msg("image of weights on disk dropped")
			c.remove(ctx, e.Key)
		case core.Refuse:
			c.Log.Info().Str("model", c.models[e.Key].name).Str("bytes", units.FormatBytes(e.Bytes)).
				Str("budget", units.FormatBytes(e.Usage.Budget)).Msg("no room on disk for an image of weights")
		case core.Ignored:
			c.Log.Debug().Str("image", e.Key.Digest).Stringer("state", e.State).Stringer("event", e.Event).
				Str("why", e.Why).Msg("event ignored by the images on disk")
		case core.Proceed:
			c.proceed(ctx, e.Waiter)
		case core.Reserve, core.Rename: // Write makes the file, by the digest
		}
	}
}

func (c *cache) onRetryWrite(ctx actor.Context, msg *retryWrite) {
	if msg.incarnation == c.incarnation {
		delete(c.disk.tried, msg.key)
		c.sync(ctx)
	}
}

// remove forgets the file of an image at once; a job deletes it.
func (c *cache) remove(ctx actor.Context, key core.Key) {
	release := c.Disk.Remove(key)
	if release == nil {
		return
	}
	supervise.Job(ctx, c.lifetime,
		func(context.Context) (struct{}, error) { return struct{}{}, release() },
		func(_ struct{}, err error) any { return &removed{key, err} })
}

func (c *cache) onRemoved(msg *removed) {
	if msg.err != nil {
		c.Log.Warn().Err(msg.err).Str("image", msg.key.Digest).Msg("removing an image of weights failed")
	}
}

// diskStatus returns what is on the disk; nil if images are not kept there.
func (c *cache) diskStatus() *messages.DiskImagesStatus {
	if c.disk == nil {
		return nil
	}
	u := c.disk.machine.Usage()
	s := &messages.DiskImagesStatus{BudgetBytes: uint64(u.Budget), UsedBytes: uint64(u.Used)}
	for _, i := range c.disk.machine.Images() {
		m := c.models[i.Key]
		s.Images = append(s.Images, &messages.HostImage{
			Model: m.name, Path: m.path, RevisionDigest: i.Digest, Layout: i.Layout, Bytes: uint64(i.Bytes),
			State: i.State.String(), Pinned: i.Pinned, Readers: uint32(i.Readers),
		})
	}
	return s
}
