package adapter

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/hostcache"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

// Store is the memory for the adapters of one lease, to which the slots write; see
// residency.AdapterCache. It survives every actor.
type Store interface {
	Inspect(name hostcache.Name, path string) (engine.AdapterFile, error)
	Load(ctx context.Context, key string, file engine.AdapterFile, pages []uint32, ticket string) (lora.Tier, error)
	Evict(key string)
	Held() []residency.ResidentAdapter
	Pages() []uint32 // without those that were given back
	MinPages() int
	GiveBack(pages []uint32)
	TakeBack()
	Layout() string
	InHost(name hostcache.Name) bool
	HostNews() uint64
}

// Config is fixed for the life of the pool and shared by its restarts.
type Config struct {
	// Open returns the memory for the adapters of the replica's lease.
	Open func() (Store, error)
	// GPU receives DeviceFailed, and grants pages; nil: their number is fixed.
	GPU   *actor.PID
	Lease string
	Model string // the deployment
	// HostCache is the actor of the copies in host memory, which all replicas of the node share; nil: none.
	HostCache *actor.PID
	// OnLoaded is called when an adapter was copied to the device, with its key; nil: nothing is called. It must not
	// block.
	OnLoaded func(key string)
	Slot     func(SlotConfig) *actor.Props
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the props of a replica's adapter pool.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &pool{Config: cfg, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

// pool is the actor. Its machine decides which adapters are in memory.
type pool struct {
	Config
	incarnation uint64
	phase       phase
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	store    Store
	machine  *lora.Pool
	known    map[string]*adapterEntry // by adapter key; adapters that were requested or are in memory
	pins     map[string]string        // request id -> key
	slots    map[string]*actor.PID    // key -> its slot
	slotKeys map[string]string        // adapter keys by id of the slot, including stopping ones
	reported lora.Stats               // last counters sent to the replica
	hostNews uint64                   // of the store, at the last search for copies in host memory
	shrink   uint64                   // attempt of the last ShrinkAdapters
	requests uint64                   // number of the last request for pages
}

// phase tells which messages the pool accepts.
type phase uint8

const (
	recovering phase = iota // only AdoptPins is accepted
	serving
	ending // nothing is accepted: the pool is stopping its slots
)

// adapterEntry is an adapter that was requested or is in memory.
type adapterEntry struct {
	spec        *messages.AdapterSpec
	file        engine.AdapterFile // zero until inspected
	lastFailure messages.Reason    // of its last inspection or load
	reported    lora.Location      // last location sent to the replica
	requested   bool               // by a sequence or a pin; else only the planner wants it
}

// inspected and prefetch are messages to self.
type (
	inspected struct {
		incarnation uint64
		key         string
		file        engine.AdapterFile
		err         error
	}
	prefetch    struct{ incarnation uint64 }
	reportPages struct{ incarnation uint64 }
	growTimeout struct{ incarnation, request uint64 }
)

func (p *pool) Receive(ctx actor.Context) {
	if !p.accepts(ctx.Message()) {
		return
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		p.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.onEnding()
	case *messages.AdoptPins:
		p.onAdopt(ctx, msg)
	case *messages.PinAdapter:
		p.onPin(ctx, msg)
	case *messages.UnpinAdapter:
		p.onUnpin(ctx, msg)
	case *messages.AdapterRequested:
		p.onRequested(ctx, msg)
	case *messages.PrefetchAdapters:
		p.onPrefetchAhead(ctx, msg)
	case *messages.ForgetAdapter:
		p.onForget(ctx, msg)
	case *messages.ShrinkAdapters:
		p.onShrink(ctx, msg)
	case *messages.GrowAdapters:
		p.onGrow(ctx, msg)
	case *reportPages:
		p.onReportPages(ctx, msg)
	case *growTimeout:
		p.onGrowTimeout(ctx, msg)
	case *inspected:
		p.onInspected(ctx, msg)
	case *messages.SlotLoaded:
		p.onLoaded(ctx, msg)
	case *actor.Terminated:
		p.onTerminated(ctx, msg)
	case *prefetch:
		p.onPrefetch(ctx, msg)
	case *actor.DeadLetterResponse: // the gpu actor is gone; reports to it are repeated
	default:
		supervise.Unknown(ctx, "adapters")
	}
}

// name returns the name of an adapter in the host cache.
func (p *pool) name(key string) hostcache.Name {
	return hostcache.Name{Model: p.Model, Adapter: key, Layout: p.store.Layout()}
}

// accepts reports whether a message is handled in this phase. The replica and the gpu actor repeat ignored
// commands.
// A slot spawned by a pool that is ending would never stop, and the next incarnation would wait for
// it.
func (p *pool) accepts(message any) bool {
	switch message.(type) {
	case *messages.PinAdapter, *messages.UnpinAdapter, *messages.AdapterRequested, *messages.PrefetchAdapters,
		*messages.ForgetAdapter, *messages.ShrinkAdapters, *messages.GrowAdapters:
		return p.phase == serving
	}
	return p.phase != ending
}
