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
	"troupe/messages"
)

// Store is what the slots drive: the memory for the adapters of one lease; see engine.AdapterStore. It survives every actor.
type Store interface {
	Inspect(path string) (engine.AdapterFile, error)
	Load(ctx context.Context, key string, file engine.AdapterFile, pages []uint32, keep bool) error
	Evict(key string)
	Drop(key string) error
	Held() []engine.HeldAdapter
	Staged() []engine.StagedAdapter
	Pages() []uint32
}

// Config is fixed for the life of the pool and shared by its restarts.
type Config struct {
	// Open returns the memory for the adapters of the replica's lease.
	Open func() (Store, error)
	// HostBytes of page-locked host memory are for adapters that were read; 0: none is kept.
	HostBytes int64
	Prefetch  int // adapters that are loaded ahead of need at once, by popularity; 0: none
	Slot      func(SlotConfig) *actor.Props
	Strategy  actor.SupervisorStrategy
	Log       zerolog.Logger
}

// prefetchEvery is how often the most popular adapters are looked for.
const prefetchEvery = 100 * time.Millisecond

// Props returns the recipe for the pool of a replica.
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
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc
	ending      bool // its slots end because it does, and it hears nothing more

	store   Store
	core    *lora.Pool
	adopted bool                  // the replica has said which pins hold
	known   map[string]*known     // key -> what is asked for, or there
	pins    map[string]string     // request id -> key
	slots   map[string]*actor.PID // key -> its slot
	tenants map[string]string     // id of a slot, be it ending -> key
	news    bool                  // adapters were requested since the last prefetch
	told    lora.Stats            // to the replica
}

// known is an adapter that somebody asked for.
type known struct {
	spec    *messages.AdapterSpec
	file    engine.AdapterFile
	opening bool                   // its folder is being inspected
	askers  []*messages.PinAdapter // meanwhile
	failure messages.Reason        // of its last load
	told    lora.Location             // to the replica
}

// inspected and prefetch are notes to self.
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
		return // a slot that is spawned now would be stopped by nobody, and the next life would wait for its end
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		p.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.ending = true
		if p.end != nil { // else it has not begun
			p.end()
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

// serve is what the replica asks for.
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
	}
}

// onStarted finds what the last life left in memory.
func (p *pool) onStarted(ctx actor.Context) {
	p.life, p.end = context.WithCancel(context.Background())
	p.known, p.pins = make(map[string]*known), make(map[string]string)
	p.slots, p.tenants = make(map[string]*actor.PID), make(map[string]string)
	store, err := p.Open()
	if err != nil {
		panic(err)
	}
	p.store = store
	p.core = lora.NewPool(lora.Config{Pages: store.Pages(), HostBytes: p.HostBytes})
	for _, s := range store.Staged() {
		if p.meet(s.Key, s.File); !p.core.RecoverHost(s.Key) {
			p.drop(s.Key)
		}
	}
	for _, h := range store.Held() {
		if p.meet(h.Key, h.File); !p.core.Recover(h.Key, h.Pages) {
			panic("adapter: two adapters are in the same pages, " + h.Key + " is one of them")
		}
		p.spawn(ctx, SlotConfig{Store: store, Key: h.Key, File: h.File, Pages: h.Pages})
	}
	ctx.Request(ctx.Parent(), &messages.AdaptersReady{Incarnation: p.incarnation, Bytes: uint64(len(store.Pages())) * hbm.PageBytes})
	supervise.After(ctx, prefetchEvery, &prefetch{p.incarnation})
}

// meet registers an adapter that is in memory.
func (p *pool) meet(key string, file engine.AdapterFile) {
	if p.known[key] == nil {
		p.known[key] = &known{spec: messages.AdapterOf(key), file: file}
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
		p.tell(ctx, key)
	}
	p.change(ctx)
}

// onPrefetch loads what is popular, where there is room that nobody wanted of late, and sees to it that the replica hears what was counted.
func (p *pool) onPrefetch(ctx actor.Context, msg *prefetch) {
	if msg.incarnation != p.incarnation {
		return
	}
	if p.news && p.adopted {
		p.news = false
		p.carry(ctx, p.core.Prefetch(p.Prefetch, time.Now())...)
	}
	if p.adopted && p.told != p.core.Stats() {
		p.change(ctx)
	}
	supervise.After(ctx, prefetchEvery, msg)
}

// drop frees host memory.
func (p *pool) drop(key string) {
	if err := p.store.Drop(key); err != nil {
		p.Log.Warn().Err(err).Str("adapter", key).Msg("host memory of an adapter not freed")
	}
}

var errSlot = errors.New("its slot crashed too often")
