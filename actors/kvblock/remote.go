package kvblock

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/remote"
	"troupe/messages"
)

// RemoteName is the name of the remote tier, next to "hbm", "dram" and "nvme".
const RemoteName = "remote"

// DefaultRemoteBytes is the default limit on the bytes in flight from other nodes.
const DefaultRemoteBytes = 256 << 20

// RemoteConfig configures the remote tier. It is fixed for the life of the actor and shared by its
// restarts.
type RemoteConfig struct {
	Router   *actor.PID // knows the holders of blocks
	Capacity int64      // limit on the bytes in flight to this node; default DefaultRemoteBytes
	Log      zerolog.Logger
}

// RemoteProps returns the props of a node's remote tier.
func RemoteProps(cfg RemoteConfig) *actor.Props {
	var incarnation uint64
	if cfg.Capacity == 0 {
		cfg.Capacity = DefaultRemoteBytes
	}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &remoteTier{RemoteConfig: cfg, incarnation: incarnation}
	})
}

type remoteTier struct {
	RemoteConfig
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	machine     *remote.Machine
	commands    map[string]*messages.FetchBlocks // by request id; commands of the fetches that the machine keeps
}

// Messages to self. A message of an earlier incarnation is dropped.
type (
	leaseDone struct {
		incarnation uint64
		id          string
		result      *messages.LeaseBlocksResult
		err         error
	}
	sweep struct{ incarnation uint64 }
)

func (r *remoteTier) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		r.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		r.onEnd(ctx)
	case *actor.Stopped:
	case *messages.FindBlocks:
		r.onFind(ctx, msg)
	case *messages.FindBlocksResult:
		r.onFound(ctx, msg)
	case *messages.FetchBlocks:
		r.onFetch(ctx, msg)
	case *messages.ReleaseBlocks:
		r.onRelease(ctx, msg)
	case *leaseDone:
		r.onLeaseDone(ctx, msg)
	case *messages.BlocksFetched:
		r.onFetched(ctx, msg)
	case *messages.GetSlots:
		ctx.Respond(r.status(supervise.Now(ctx)))
	case *sweep:
		r.onSweep(ctx, msg)
	default:
		supervise.Unknown(ctx, "remote")
	}
}
