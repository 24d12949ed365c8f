package hostcache

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/core/units"
	"troupe/cuda"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// writeLoaded writes to the disk the next weights on a device that have no image, because they do not fit into
// host memory. It returns what is on the devices.
func (c *cache) writeLoaded(ctx actor.Context) map[core.Key]bool {
	all := make(map[core.Key]bool)
	if c.Devices == nil {
		return all
	}
	for _, w := range c.Devices.Loaded() {
		all[w.Key] = true
		hasImage := c.onDisk(w.Key) || c.machine.State(w.Key) != core.Absent
		if !hasImage && !c.disk.tried[w.Key] && !c.disk.writing {
			c.writeFromDevice(ctx, w)
		}
	}
	return all
}

// writeFromDevice starts a job that writes weights on a device to the disk. Like a load of another device, it
// keeps them from being freed.
func (c *cache) writeFromDevice(ctx actor.Context, w residency.LoadedWeights) {
	c.disk.tried[w.Key] = true
	image, _ := c.Devices.Find(w.Key.Digest, w.On)
	if image == nil {
		return
	}
	c.models[w.Key] = model{name: w.Model, path: w.Path}
	if !c.reserveOnDisk(ctx, w.Key, image) {
		return
	}
	disk, epoch, devices := c.Disk, c.disk.epoch, c.Devices
	c.startWrite(ctx, w.Key, func(life context.Context) (err error) {
		sources := devices.Open(life, w.Key.Digest, w.On, nil)
		if len(sources) == 0 {
			return errGone
		}
		defer func() {
			for _, one := range sources {
				err = errors.Join(err, one.Close())
			}
		}()
		return disk.WriteParts(life, epoch, sources[0].Image(), sources[0])
	})
}

// parkOnDisk lets weights that leave a device go to an image on disk. The answer says already why they do not
// go to host memory. It reports whether the request waits until the image is written.
func (c *cache) parkOnDisk(ctx actor.Context, w waitingUse, key core.Key, answer *messages.UseImageResult) bool {
	if c.disk == nil {
		return false
	}
	switch c.disk.machine.State(key) {
	case core.Filling:
		c.waiting[w.use.GetRequestId()] = w
		c.performDisk(ctx, c.disk.machine.Await(key, w.use.GetRequestId()))
		return true
	case core.Ready:
		answer.Ready, answer.OnDisk = true, true
		c.touch(ctx, key)
	case core.Absent:
		c.fillOnDisk(ctx, w, key, answer)
	default: // the file is about to be removed
	}
	return false
}

// fillOnDisk makes room on disk for weights that leave a device, and gives them a ticket.
func (c *cache) fillOnDisk(ctx actor.Context, w waitingUse, key core.Key, answer *messages.UseImageResult) {
	on, ok := c.loadedOn(key)
	if !ok {
		return
	}
	image, _ := c.Devices.Find(key.Digest, on)
	if image == nil {
		return
	}
	c.models[key] = model{name: w.use.GetModel(), path: w.use.GetPath()}
	if !c.reserveOnDisk(ctx, key, image) {
		u := c.disk.machine.Usage()
		answer.Refused.Detail += fmt.Sprintf("; nor on disk: %s of %s are used, %s of them by images of parked "+
			"models; start the node with larger --weights-images", units.FormatBytes(u.Used),
			units.FormatBytes(u.Budget), units.FormatBytes(u.Pinned))
		return
	}
	bytes, _ := residency.FileBytes(image)
	answer.Ticket, answer.OnDisk = supervise.RuntimeOf(ctx.ActorSystem()).ID(), true
	c.Images.IssueDisk(answer.GetTicket(), key, bytes, supervise.Now(ctx).Add(claimTimeout))
}

// loadedOn returns a device that has weights.
func (c *cache) loadedOn(key core.Key) (cuda.Info, bool) {
	if c.Devices == nil {
		return cuda.Info{}, false
	}
	for _, w := range c.Devices.Loaded() {
		if w.Key == key {
			return w.On, true
		}
	}
	return cuda.Info{}, false
}

// diskTicketEnded passes the outcome of a ticket for an image on disk to its machine.
func (c *cache) diskTicketEnded(ctx actor.Context, t residency.Ticket) {
	switch {
	case c.disk == nil:
	case t.Digest == "":
		c.Log.Warn().Str("model", c.models[t.Key].name).Str("revision", digest.Short(t.Key.Digest)).
			Str("why", t.Why).Msg("image of weights not kept on disk")
		c.performDisk(ctx, c.disk.machine.Failed(t.Key, t.Why))
	case c.onDisk(t.Key):
		c.onFile(ctx, t.Key)
	default: // there is no room for it any longer
		c.remove(ctx, t.Key)
	}
}

// pinOnDisk pins the images on disk of parked deployments that have none in host memory, and no others.
func (c *cache) pinOnDisk(ctx actor.Context) {
	if c.disk == nil {
		return
	}
	for _, i := range c.disk.machine.Images() {
		switch parked := c.parked(i.Key) && c.machine.State(i.Key) != core.Ready; {
		case parked && !i.Pinned:
			c.performDisk(ctx, c.disk.machine.Pin(i.Key))
		case !parked && i.Pinned:
			c.performDisk(ctx, c.disk.machine.Unpin(i.Key))
		}
	}
}
