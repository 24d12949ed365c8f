package hostcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/core/loadsource"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// receiverTimeout is how long a receiver may take no chunk before the transfer to it ends.
const receiverTimeout = 30 * time.Second

// Messages to self: results of jobs for other nodes.
type (
	found struct {
		to     *actor.PID
		answer *messages.ImageFound
		err    error
	}
	sent struct {
		to       *actor.PID
		request  string
		revision string
		err      error
	}
)

// imageFor returns an image for another node, and where it is kept. That of weights on a device may have no
// checksums yet. It may read the disk.
func (c *cache) imageFor(revision string, weights uint32) (image *engine.Image, kept string, onDevice bool) {
	on := cuda.Info{Weights: cuda.DType(weights)}
	if i := c.Images.Find(revision, on); i != nil {
		return i, residency.FromHostCache, false
	}
	if c.Disk != nil {
		if i := c.Disk.Find(revision, on); i != nil {
			return i, string(loadsource.DiskImage), false
		}
	}
	if c.Devices != nil {
		image, kept = c.Devices.Find(revision, on)
	}
	return image, kept, image != nil
}

// onFind starts a job that looks for an image.
func (c *cache) onFind(ctx actor.Context, msg *messages.FindImage) {
	to := ctx.Sender()
	supervise.Job(ctx, c.lifetime,
		func(context.Context) (*messages.ImageFound, error) {
			answer := &messages.ImageFound{RequestId: msg.GetRequestId()}
			image, kept, onDevice := c.imageFor(msg.GetRevisionDigest(), msg.GetWeights())
			if image == nil {
				return answer, nil
			}
			header, err := residency.EncodeHeader(image)
			answer.KeptIn, answer.OnDevice, answer.HeaderBytes = kept, onDevice, uint64(len(header))
			return answer, err
		},
		func(a *messages.ImageFound, err error) any { return &found{to, a, err} })
}

func (c *cache) onFound(ctx actor.Context, msg *found) {
	if msg.err != nil {
		c.Log.Warn().Err(msg.err).Msg("looking for an image failed")
		return
	}
	ctx.Send(msg.to, msg.answer)
}

// onSend starts a job that sends chunks of an image. One in host memory is not freed meanwhile.
func (c *cache) onSend(ctx actor.Context, msg *messages.SendImage) {
	to, revision := ctx.Sender(), msg.GetRevisionDigest()
	rt, plane := supervise.RuntimeOf(ctx.ActorSystem()), c.Plane
	use := c.claim(ctx, revision, msg.GetWeights())
	supervise.Job(ctx, c.lifetime,
		func(life context.Context) (struct{}, error) {
			s := &sending{Plane: plane, rt: rt, command: msg}
			err := s.run(life, c, use)
			return struct{}{}, errors.Join(err, use.Close())
		},
		func(_ struct{}, err error) any { return &sent{to, msg.GetRequestId(), revision, err} })
}

// claim claims an image in host memory for a reader; nil if it is not there.
func (c *cache) claim(ctx actor.Context, revision string, weights uint32) *residency.ImageUse {
	image := c.Images.Find(revision, cuda.Info{Weights: cuda.DType(weights)})
	if image == nil {
		return nil
	}
	key := core.Key{Digest: revision, Layout: image.Info.WeightLayout}
	if c.machine.State(key) != core.Ready {
		return nil
	}
	ticket := supervise.RuntimeOf(ctx.ActorSystem()).ID()
	c.perform(ctx, c.machine.Open(key, ticket))
	c.Images.Issue(ticket, key, false, supervise.Now(ctx).Add(claimTimeout))
	return c.Images.Claim(ticket)
}

func (c *cache) onSent(ctx actor.Context, msg *sent) {
	result := &messages.SendImageResult{RequestId: msg.request}
	if msg.err != nil {
		c.Log.Warn().Err(msg.err).Str("revision", digest.Short(msg.revision)).Msg("sending an image failed")
		result.Refused = &messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND, Detail: msg.err.Error()}
	}
	ctx.Send(msg.to, result)
}

// sending sends chunks of one image.
type sending struct {
	Plane
	rt      supervise.Runtime
	command *messages.SendImage
	timer   supervise.Timer
}

func (s *sending) run(life context.Context, c *cache, use *residency.ImageUse) error {
	if s.Plane == nil {
		return errors.New("this node sends no images")
	}
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	progress := func() {
		if s.timer != nil {
			s.timer.Stop()
		}
		s.timer = s.rt.AfterFunc(receiverTimeout, func() { cancel(errors.New("the receiver takes nothing")) })
	}
	progress()
	defer func() { s.timer.Stop() }()
	image, _, onDevice := c.imageFor(s.command.GetRevisionDigest(), s.command.GetWeights())
	switch {
	case onDevice:
		return s.fromDevice(ctx, c, progress)
	case len(s.command.GetParts()) == 0:
		return s.header(ctx, image)
	case use.Image() != nil:
		return s.fromMemory(ctx, use.Image(), use, progress)
	}
	return s.fromDisk(ctx, c, progress)
}

// fromDevice sends weights of a device, or their header. Each part is copied to host memory first.
func (s *sending) fromDevice(ctx context.Context, c *cache, progress func()) (err error) {
	on := cuda.Info{Weights: cuda.DType(s.command.GetWeights())}
	sources := c.Devices.Open(ctx, s.command.GetRevisionDigest(), on, nil)
	if len(sources) == 0 {
		return errGone
	}
	defer func() {
		for _, one := range sources {
			err = errors.Join(err, one.Close())
		}
	}()
	if progress(); len(s.command.GetParts()) == 0 {
		return s.header(ctx, sources[0].Image())
	}
	return s.parts(ctx, sources[0].Image(), sources[0], progress)
}

func (s *sending) header(ctx context.Context, image *engine.Image) error {
	if image == nil {
		return errGone
	}
	header, err := residency.EncodeHeader(image)
	if err != nil {
		return err
	}
	count := (len(header) + headerChunk - 1) / headerChunk
	return s.Send(ctx, s.command.GetTicket(), upTo(uint32(count)), func(index uint32, into []byte) (int, error) {
		return copy(into, header[int(index)*headerChunk:]), nil
	})
}

var errGone = errors.New("the image is no longer on this node")

func upTo(n uint32) []uint32 {
	all := make([]uint32, n)
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}

// check checks that the image has the parts that the command names.
func (s *sending) check(image *engine.Image) error {
	for _, part := range s.command.GetParts() {
		if int(part) >= len(image.Sums) {
			return fmt.Errorf("part %d of an image of %d parts", part, len(image.Sums))
		}
	}
	return nil
}

func (s *sending) fromMemory(
	ctx context.Context, image *engine.Image, use *residency.ImageUse, progress func(),
) error {
	memory, err := use.Memory()
	if err == nil {
		err = s.check(image)
	}
	if err != nil {
		return err
	}
	return s.SendInPlace(ctx, s.command.GetTicket(), upTo(uint32(len(s.command.GetParts()))),
		func(index uint32, send func(parts ...[]byte) error) error {
			progress()
			part := image.Sums[s.command.GetParts()[index]]
			return send(memory[part.Offset:][:part.Bytes])
		})
}

func (s *sending) fromDisk(ctx context.Context, c *cache, progress func()) error {
	if c.Disk == nil {
		return errGone
	}
	i := c.Disk.Open(s.command.GetRevisionDigest(), cuda.Info{Weights: cuda.DType(s.command.GetWeights())})
	if i == nil {
		return errGone
	}
	defer i.Close()
	return s.parts(ctx, i.Image(), i, progress)
}

// parts sends the parts of an image that a reader brings.
func (s *sending) parts(ctx context.Context, image *engine.Image, from engine.ImageReader, progress func()) error {
	if err := s.check(image); err != nil {
		return err
	}
	return s.Send(ctx, s.command.GetTicket(), upTo(uint32(len(s.command.GetParts()))),
		func(index uint32, into []byte) (int, error) {
			progress()
			part := int(s.command.GetParts()[index])
			n := int(image.Sums[part].Bytes)
			return n, from.ReadPart(ctx, part, into[:n])
		})
}
