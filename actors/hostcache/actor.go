package hostcache

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

// Images holds the images in host memory. It is safe for concurrent use and survives the actor.
type Images interface {
	Held() []residency.HeldImage
	Reserve(key core.Key, bytes int64)
	Rename(from, to core.Key)
	Revoke(key core.Key, why string)
	Free(key core.Key) (release func() error)
	Issue(ticket string, key core.Key, fill bool, expires time.Time)
	IssueDisk(ticket string, key core.Key, bytes int64, expires time.Time)
	Expire(now time.Time)
	Ended() []residency.Ticket
	Forget(ticket string)
	Claim(ticket string) *residency.ImageUse
	Find(revision string, on cuda.Info) *engine.Image
	OnEnded(changed func())
	Attach(key core.Key, name core.Name)
	Detach(name core.Name)
	Issued(ticket string) bool
	End(ticket, why string)
}

// DiskImages holds images on a local disk. It is safe for concurrent use, and survives the actor and the
// node.
type DiskImages interface {
	Held() (all []residency.DiskImageInfo, epoch uint64)
	Write(ctx context.Context, epoch uint64, image *engine.Image, memory []byte) error
	WriteParts(ctx context.Context, epoch uint64, image *engine.Image, from engine.ImageReader) error
	Remove(key core.Key) (release func() error)
	Touch(key core.Key, now time.Time)
	Find(revision string, on cuda.Info) *engine.Image
	Open(revision string, on cuda.Info) *residency.DiskImage
	TakeUsed() (used []core.Key, damaged map[core.Key]string)
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Images      Images
	Budget      int64             // bytes
	Disk        DiskImages        // nil: none
	DiskBudget  int64             // bytes
	Devices     residency.Devices // of the node, whose weights are sent and kept on disk; nil: none
	Plane       Plane             // sends images to other nodes; nil: none are sent
	Deployments *actor.PID        // group that sends the stored deployments
	// AdapterDeleted reports whether an adapter of a deployment is certainly no longer registered.
	AdapterDeleted func(model, adapter string) bool
	// Publish publishes a life-cycle event. It must not block.
	Publish func(kind, subject, detail string)
	Log     zerolog.Logger
}

const (
	tickInterval = time.Second
	// claimTimeout is the time in which a load must claim its ticket.
	claimTimeout = 10 * time.Second
)

// Props returns the props of the actor.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &cache{Config: cfg, incarnation: incarnation}
	})
}

type cache struct {
	Config
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	machine *core.Machine
	stored  map[string]*messages.DeploymentSpec // deployments by name
	synced  bool                                // all stored deployments are known
	models  map[core.Key]model
	disk    *diskImages // nil: none

	waiting  map[string]waitingUse // requests that wait until an image is no longer being filled
	refused  uint64                // loads of adapters for which there was no room
	shortage bool                  // the last one was refused
}

// model is the deployment that loaded an image last.
type model struct {
	name, path string
	adapter    string // "": the image is of weights
}

// waitingUse is a request that may have to wait.
type waitingUse struct {
	from *actor.PID
	use  *messages.UseImage
}

// Messages to self.
type (
	ended struct{ incarnation uint64 } // a ticket has ended
	tick  struct{ incarnation uint64 }
	freed struct {
		key core.Key
		err error
	}
)

func (c *cache) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		c.Images.OnEnded(nil)
		c.cancel()
	case *actor.Stopped:
	case *messages.UseImage:
		c.onUse(ctx, msg)
	case *messages.EndImageUse:
		c.onEndUse(ctx, msg)
	case *ended:
		if msg.incarnation == c.incarnation {
			c.sync(ctx)
		}
	case *tick:
		c.onTick(ctx, msg)
	case *freed:
		if msg.err != nil {
			c.Log.Warn().Err(msg.err).Str("image", msg.key.Digest).Msg("freeing an image failed")
		}
	case *messages.FindImage:
		c.onFind(ctx, msg)
	case *found:
		c.onFound(ctx, msg)
	case *messages.SendImage:
		c.onSend(ctx, msg)
	case *sent:
		c.onSent(ctx, msg)
	case *written:
		c.onWritten(ctx, msg)
	case *retryWrite:
		c.onRetryWrite(ctx, msg)
	case *removed:
		c.onRemoved(msg)
	case *messages.ApplyDeployment:
		c.stored[msg.GetSpec().GetName()] = msg.GetSpec()
		c.pin(ctx)
	case *messages.RemoveDeployment:
		delete(c.stored, msg.GetName())
		c.pin(ctx)
	case *messages.ListDeploymentsResult:
		c.onList(ctx, msg)
	case *messages.GetHostCache:
		ctx.Respond(c.status(msg.GetAdapters()))
	case *actor.DeadLetterResponse: // the deployments group has not started yet; it sends what is stored then
	default:
		supervise.Unknown(ctx, "hostcache")
	}
}
