package kvblock

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/exporter"
	"troupe/actors/supervise"
	"troupe/core/kv"
	core "troupe/core/tier"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// TierConfig configures a tier below HBM. It is fixed for the life of the actor and shared by its
// restarts.
type TierConfig struct {
	Name  string // "dram"
	Store kvstore.Store
	// Limits are the limits of the tier. Slabs and MaxDemoteBytes are set from the stores.
	Limits    kv.TierLimits
	Policy    string             // eviction policy; default kv.DefaultPolicy
	Below     *Lower             // nil: evicted blocks are dropped
	OnDemoted kvstore.Report     // called for each block of a demotion; may be nil
	Router    *actor.PID         // receives announcements of the blocks; may be nil
	DataPlane exporter.DataPlane // nil: the tier exports no blocks
	Log       zerolog.Logger
}

// Lower is the tier below another one.
type Lower struct {
	Name  string
	Tier  *actor.PID
	Store kvstore.Store
}

// TierProps returns the props of a tier below HBM.
func TierProps(cfg TierConfig) *actor.Props {
	var incarnation uint64
	if cfg.Limits.Slabs = cfg.Store.Slabs(); cfg.Policy == "" {
		cfg.Policy = kv.DefaultPolicy
	}
	if cfg.Below != nil {
		cfg.Limits.MaxDemoteBytes = cfg.Below.Store.SlotBytes()
	}
	if cfg.OnDemoted == nil {
		cfg.OnDemoted = func(string, string, int, kvstore.Move) {}
	}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &tierActor{TierConfig: cfg, incarnation: incarnation}
	})
}

type tierActor struct {
	TierConfig
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	machine     *core.Machine
	exporter    *exporter.Exporter
}

func (s *tierActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		s.cancel()
	case *actor.Stopped:
	case *messages.ReserveSlots:
		s.onReserve(ctx, msg)
	case *messages.CommitBlocks:
		s.onCommit(ctx, msg)
	case *reservationExpiry:
		s.onReservationExpiry(ctx, msg)
	case *messages.LockBlocks:
		s.onLock(ctx, msg)
	case *messages.UnlockBlocks:
		s.onUnlock(ctx, msg)
	case *messages.StepsDone:
		s.onSteps(ctx, msg)
	case *demoteDone:
		s.onDemoteDone(ctx, msg)
	case *retryDemote:
		s.onRetryDemote(ctx, msg)
	case *messages.PinBlocks:
		s.onPin(ctx, msg)
	case *pinExpiry:
		s.onPinExpiry(ctx, msg)
	case *messages.FlushBlocks:
		s.onFlush(ctx, msg)
	case *flushed:
		s.onFlushed(ctx, msg)
	case *messages.LeaseBlocks:
		s.onLease(ctx, msg)
	case *messages.ReleaseBlocks:
		s.onRelease(ctx, msg)
	case *exportDone:
		s.onExported(ctx, msg)
	case *announceTick:
		s.onAnnounceTick(ctx, msg)
	case *messages.GetSlots:
		s.onGet(ctx)
	default:
		supervise.Unknown(ctx, "tier")
	}
}
