package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

// Store is the memory for the adapters of one lease, which the slots write to; see
// residency.AdapterStore. It survives every actor.
type Store interface {
	Inspect(path string) (engine.AdapterFile, error)
	Load(ctx context.Context, key string, file engine.AdapterFile, pages []uint32, keep bool) error
	Evict(key string)
	Drop(key string) error
	Held() []residency.ResidentAdapter
	Staged() []residency.StagedAdapter
	Pages() []uint32
}

// Config is fixed for the life of the pool and shared by its restarts.
type Config struct {
	// Open returns the memory for the adapters of the replica's lease.
	Open func() (Store, error)
	// HostBytes limits the page-locked host memory that caches adapters; 0: no cache.
	HostBytes int64
	Prefetch  int // adapters loaded ahead of need at once, by popularity; 0: none
	Slot      func(SlotConfig) *actor.Props
	Strategy  actor.SupervisorStrategy
	Log       zerolog.Logger
}

// prefetchInterval is how often the pool looks for popular adapters to load.
const prefetchInterval = 100 * time.Millisecond

// Props returns the props of a replica's adapter pool.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &pool{Config: cfg, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

type pool struct {
	Config
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	ending      bool // its children stop because it does; it ignores all further messages

	store          Store
	core           *lora.Pool
	adopted        bool                     // the replica has sent AdoptPins
	known          map[string]*adapterEntry // by adapter key; requested or present
	pins           map[string]string        // request id -> key
	slots          map[string]*actor.PID    // key -> its slot
	slotKeys       map[string]string        // adapter keys by id of the slot, including stopping ones
	requestedSince bool                     // adapters were requested since the last prefetch
	reported       lora.Stats               // last sent to the replica
}

// adapterEntry is an adapter that was requested.
type adapterEntry struct {
	spec        *messages.AdapterSpec
	file        engine.AdapterFile
	inspecting  bool                   // its folder is being inspected
	waiting     []*messages.PinAdapter // pins that wait for the inspection
	lastFailure messages.Reason        // of its last load
	reported    lora.Location          // last sent to the replica
}

// inspected and prefetch are messages to self.
type (
	inspected struct {
		incarnation uint64
		key         string
		file        engine.AdapterFile
		err         error
	}
	prefetch struct{ incarnation uint64 }
)

func (p *pool) Receive(ctx actor.Context) {
	if p.ending {
		return // a slot spawned now would never stop, and the next incarnation would wait for it
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		p.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.ending = true
		if p.cancel != nil { // nil before Started
			p.cancel()
		}
	case *messages.AdoptPins:
		p.onAdopt(ctx, msg)
	case *inspected:
		p.onInspected(ctx, msg)
	case *messages.SlotLoaded:
		p.onLoaded(ctx, msg)
	case *actor.Terminated:
		p.onTerminated(ctx, msg)
	case *prefetch:
		p.onPrefetch(ctx, msg)
	default:
		if p.adopted {
			p.serve(ctx)
		}
	}
}

// serve handles the replica's commands.
func (p *pool) serve(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *messages.PinAdapter:
		p.onPin(ctx, msg)
	case *messages.UnpinAdapter:
		p.onUnpin(ctx, msg)
	case *messages.AdapterRequested:
		p.onRequested(ctx, msg)
	case *messages.ForgetAdapter:
		p.onForget(ctx, msg)
	default:
		supervise.Unknown(ctx, "adapters")
	}
}

// onStarted recovers the adapters that the previous incarnation left in memory.
func (p *pool) onStarted(ctx actor.Context) {
	p.lifetime, p.cancel = context.WithCancel(context.Background())
	p.known, p.pins = make(map[string]*adapterEntry), make(map[string]string)
	p.slots, p.slotKeys = make(map[string]*actor.PID), make(map[string]string)
	store, err := p.Open()
	if err != nil {
		panic(err)
	}
	p.store = store
	p.core = lora.NewPool(lora.Config{Pages: store.Pages(), HostBytes: p.HostBytes})
	for _, s := range store.Staged() {
		if p.registerHeld(s.Key, s.File); !p.core.RecoverHost(s.Key) {
			p.drop(s.Key)
		}
	}
	for _, h := range store.Held() {
		if p.registerHeld(h.Key, h.File); !p.core.Recover(h.Key, h.Pages) {
			panic("adapter: pages of " + h.Key + " are used twice")
		}
		p.spawn(ctx, SlotConfig{Store: store, Key: h.Key, File: h.File, Pages: h.Pages})
	}
	ctx.Request(ctx.Parent(), &messages.AdaptersReady{Incarnation: p.incarnation,
		Bytes: uint64(len(store.Pages())) * hbm.PageBytes})
	supervise.After(ctx, prefetchInterval, &prefetch{p.incarnation})
}

// registerHeld registers an adapter that is in memory.
func (p *pool) registerHeld(key string, file engine.AdapterFile) {
	if p.known[key] == nil {
		p.known[key] = &adapterEntry{spec: messages.AdapterOf(key), file: file}
		p.core.Register(key, file.Layout)
	}
}

func (p *pool) onAdopt(ctx actor.Context, msg *messages.AdoptPins) {
	if msg.GetIncarnation() != p.incarnation || p.adopted {
		return
	}
	p.adopted = true
	for _, pin := range msg.GetPins() {
		p.onPin(ctx, pin)
	}
	for key := range p.known {
		p.notify(ctx, key)
	}
	p.sendChanges(ctx)
}

// onPrefetch loads popular adapters into memory that was not used recently. It also sends changed
// counters to the replica.
func (p *pool) onPrefetch(ctx actor.Context, msg *prefetch) {
	if msg.incarnation != p.incarnation {
		return
	}
	if p.requestedSince && p.adopted {
		p.requestedSince = false
		p.execute(ctx, p.core.Prefetch(p.Prefetch, time.Now())...)
	}
	if p.adopted && p.reported != p.core.Stats() {
		p.sendChanges(ctx)
	}
	supervise.After(ctx, prefetchInterval, msg)
}

// drop frees host memory.
func (p *pool) drop(key string) {
	if err := p.store.Drop(key); err != nil {
		p.Log.Warn().Err(err).Str("adapter", key).Msg("freeing host memory of adapter failed")
	}
}

var errSlot = errors.New("slot crashed too often")
