package gpu

import (
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	core "troupe/core/device"
	"troupe/core/health"
	"troupe/core/quarantine"
	weights "troupe/core/residency"
	"troupe/core/switching"
	"troupe/core/utilization"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

// Models holds the weights and the leases in one device's memory. It is safe for concurrent use and
// survives every actor.
type Models interface {
	Inspect(path, revision string) (residency.Inspected, error)
	LoadWeights(ctx context.Context, copy uint64, from weights.Source, ticket string) (weights.Content, error)
	ParkWeights(ctx context.Context, copy uint64, ticket string) error
	FreeWeights(copy uint64) error
	Lease(spec engine.LoadSpec, copy uint64, handle string) (residency.Loaded, error)
	Unload(lease string) (int64, error)
	Resize(lease string, blocks int) (residency.Loaded, error)
	LeaseAdapters(lease string, pages, least int) (residency.Loaded, error)
	ResizeAdapters(lease string, pages int) (residency.Loaded, error)
	Held() []residency.Loaded
	Copies() []weights.Copy

	OpenReader(id string, copy uint64, expires time.Time)
	RevokeReaders(copy uint64, why string)
	ExpireReaders(now time.Time)
	EndedReaders() []residency.EndedReader
	ForgetReader(id string)
	OnReaderEnded(changed func())
}

// HealthSource observes a device. It may block.
type HealthSource interface{ Health() health.Observation }

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Node   string // node of the device
	Name   string // "gpu-0"
	Info   cuda.Info
	Models Models
	// HostCache is the actor of the images in host memory; nil: none.
	HostCache *actor.PID
	Planner   *actor.PID   // planner of this node, which learns of quarantines; nil: none
	HBM       *actor.Props // props of the KV tier, a child of this actor
	Health    HealthSource // observed every second; nil: the device is not observed
	Facts     *messages.GpuFacts
	Peaks     utilization.Peaks // of the device, as far as they are known
	// KVReserve is the share of the device's memory that is reserved for KV blocks.
	KVReserve float64
	// SelfTest tests the device. It may hang if the device hangs.
	SelfTest func(context.Context) error
	// Publish publishes a life-cycle event. It must not block.
	Publish  func(kind, subject, detail string)
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the props of a gpu actor.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	shared := &sharedState{quarantine: quarantine.New(), uses: make(map[string]*use)}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &device{Config: cfg, sharedState: shared, incarnation: incarnation, switches: switching.New(),
			loads: make(map[string]switching.Load)}
	}, actor.WithSupervisor(cfg.Strategy))
}

// sharedState is shared by all incarnations of the actor.
type sharedState struct {
	quarantine *quarantine.Machine
	jobs       sync.WaitGroup  // loads and unloads in flight
	attempt    uint64          // number of the last resize or copy of weights
	granted    uint64          // number of the last turn
	uses       map[string]*use // by replica
	window     *utilization.Window
	switched   switchTotals
}

type device struct {
	Config
	*sharedState
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	changes sync.WaitGroup // allocations, resizes and leases in flight

	hbm     *actor.PID
	memory  *core.Memory
	sharing sharing

	loads      map[string]switching.Load // since this incarnation started, by lease
	switches   *switching.Machine
	lastSwitch *messages.GpuSwitch     // in progress, or the last one; nil: none
	images     map[string]imageRequest // of the host cache, by request
	asked      uint64                  // number of the last of them
}

func (d *device) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		d.onStarted(ctx)
	case *actor.Restarting:
		d.onStopping()
	case *actor.Stopping:
		d.onStopping()
		d.jobs.Wait() // the device is closed as soon as the actor has stopped
	case *messages.LoadModel:
		d.onLoad(ctx, msg)
	case *inspected:
		d.onInspected(ctx, msg)
	case *weightsLoaded:
		d.onWeightsLoaded(ctx, msg)
	case *weightsFreed:
		d.onWeightsFreed(ctx, msg)
	case *opened:
		d.onOpened(ctx, msg)
	case *messages.UnloadModel:
		d.onUnload(ctx, msg)
	case *unloaded:
		d.onUnloaded(ctx, msg)
	case *messages.UseImageResult:
		d.onImage(ctx, msg)
	case *imageTimeout:
		d.onImageTimeout(ctx, msg)
	case *messages.ReadWeights:
		d.onRead(ctx, msg)
	case *readerEnded:
		d.onReaderEnded(ctx, msg)
	case *messages.RequestTurn:
		d.onRequestTurn(ctx, msg)
	case *messages.TurnEnded:
		d.onTurnEnded(ctx, msg)
	case *turnTimeout:
		d.onTurnTimeout(ctx, msg)
	case *actor.Terminated:
		d.onTerminated(ctx, msg)
	case *messages.KVReport:
		d.onReport(ctx, msg)
	case *messages.KVShrunk:
		d.onShrunk(ctx, msg)
	case *shrinkTimeout:
		d.onShrinkTimeout(ctx, msg)
	case *resized:
		d.onResized(ctx, msg)
	case *messages.LeaseAdapters:
		d.onLeaseAdapters(ctx, msg)
	case *adaptersLeased:
		d.onAdaptersLeased(ctx, msg)
	case *messages.AdapterReport:
		d.onAdapterReport(ctx, msg)
	case *messages.AdaptersShrunk:
		d.onAdaptersShrunk(ctx, msg)
	case *poolTimeout:
		d.onPoolTimeout(ctx, msg)
	case *pagesChanged:
		d.onPagesChanged(ctx, msg)
	case *tick:
		d.onTick(ctx, msg)
	case *messages.GetGpu:
		ctx.Respond(d.status(ctx))
	case *observeNow:
		d.onObserveNow(ctx, msg)
	case *observed:
		d.onObserved(ctx, msg)
	case *messages.DeviceFailed:
		d.onDeviceFailed(ctx, msg)
	case *messages.DeviceSuspected:
		d.performHealth(ctx, d.quarantine.Suspect(msg.GetDetail(), supervise.Now(ctx)))
	case *messages.QuarantineGpu:
		d.onQuarantine(ctx, msg)
	case *messages.OverruleSwitch:
		d.onOverrule(ctx, msg)
	case *messages.SwitchGpu:
		d.onSwitch(ctx, msg)
	case *switchDeadline:
		d.onSwitchDeadline(ctx, msg)
	case *messages.EvictWeights:
		d.onEvict(ctx, msg)
	case *messages.ReleaseGpu:
		d.onRelease(ctx, msg)
	case *tested:
		d.onTested(ctx, msg)
	default:
		supervise.Unknown(ctx, "gpu")
	}
}
