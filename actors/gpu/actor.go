package gpu

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

// Models is what this actor drives: the models in one device's memory. It is safe for concurrent use,
// and what it holds survives any actor.
type Models interface {
	Inspect(path string) (engine.ModelInfo, error)
	Load(ctx context.Context, spec engine.LoadSpec) (residency.Loaded, error)
	Unload(lease string) (int64, error)
	Resize(lease string, blocks int) (residency.Loaded, error)
	LeaseAdapters(lease string, pages int) (residency.Loaded, error)
	Held() []residency.Loaded
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Node   string // the member that owns it
	Name   string // "gpu-0"
	Info   cuda.Info
	Models Models
	HBM    *actor.Props // the child
	Source Source       // observed every second; nil: nobody tells how the device is
	Facts  *messages.GpuFacts
	// KVReserve is the share of the device's memory that is kept for KV blocks.
	KVReserve float64
	// SelfTest tries the device; it may hang with it.
	SelfTest func(context.Context) error
	// Publish announces life-cycle events; it must not block.
	Publish  func(kind, subject, detail string)
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the recipe for a gpu actor.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	kept := &standing{}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &device{Config: cfg, standing: kept, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

type device struct {
	Config
	*standing
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc

	hbm      *actor.PID
	ledger   *hbm.Ledger
	held     map[string]residency.Loaded // lease -> the model under it
	loading  map[string]*load            // lease -> the load in flight
	freeing  map[string][]asker          // lease -> who waits for it to be free
	users    map[string]user             // lease -> who uses its KV memory, as last heard
	resizing map[string]*resize          // lease -> its KV memory grows or shrinks
	fixed    map[string]bool             // leases that cannot be resized
	adapting map[string]*adapting        // lease -> it gets memory for adapters
	attempt  uint64                      // of the last resize; unique over all lives
	busy     time.Time                   // when memory was last wanted for something else than growing

	testing   bool      // a self-test runs
	tried     time.Time // when the last one began, or the quarantine
	releasing []asker   // who waits for it
}

// load is one model on its way to the device.
type load struct {
	command *messages.LoadModel // the first that asked
	askers  []asker
	began   time.Time
	facts   engine.ModelInfo // once inspected
	counts  bool             // there is room for it by the budget
	waits   bool             // for memory that others give up
	until   time.Time        // for how long; zero: it has not been short of any
}

type asker struct {
	requestID string
	replyTo   *actor.PID
}

// inspected, loaded and unloaded are notes to self.
type (
	inspected struct {
		incarnation uint64
		lease       string
		facts       engine.ModelInfo
		err         error
	}
	loaded struct {
		incarnation uint64
		lease       string
		model       residency.Loaded
		err         error
	}
	unloaded struct {
		incarnation uint64
		lease       string
		bytes       int64
		err         error
	}
)

func (d *device) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		d.onStarted(ctx)
	case *actor.Restarting:
		d.onEnding()
	case *actor.Stopping:
		d.onEnding()
		d.jobs.Wait() // who stops the actor closes the device next
	case *messages.LoadModel:
		d.onLoad(ctx, msg)
	case *inspected:
		d.onInspected(ctx, msg)
	case *loaded:
		d.onLoaded(ctx, msg)
	case *messages.UnloadModel:
		d.onUnload(ctx, msg)
	case *unloaded:
		d.onUnloaded(ctx, msg)
	case *messages.GetGpu:
		ctx.Respond(d.status())
	default:
		d.receiveResize(ctx)
	}
}

func (d *device) receiveHealth(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *observeNow:
		if msg.incarnation == d.incarnation {
			d.observe(ctx)
		}
	case *observed:
		d.onObserved(ctx, msg)
	case *messages.DeviceFailed:
		d.onFailed(msg)
	case *messages.QuarantineGpu:
		d.onQuarantine(ctx, msg)
	case *messages.ReleaseGpu:
		d.onRelease(ctx, msg)
	case *tested:
		d.onTested(ctx, msg)
	}
}

func (d *device) onStarted(ctx actor.Context) {
	d.life, d.end = context.WithCancel(context.Background())
	d.held = make(map[string]residency.Loaded)
	d.loading = make(map[string]*load)
	d.freeing = make(map[string][]asker)
	d.users, d.resizing, d.fixed = make(map[string]user), make(map[string]*resize), make(map[string]bool)
	d.adapting = make(map[string]*adapting)
	d.attempt, d.busy = uint64(time.Now().UnixNano()), time.Now()
	d.ledger = hbm.NewLedger(d.Info.MemoryBytes)
	for _, m := range d.Models.Held() {
		d.held[m.Lease] = m
		if short := d.lease(m.LoadSpec, m.Info, int64(m.KVBlocks)*m.KVBlockBytes); short != nil {
			panic("gpu: " + d.Name + " holds more than it has: " + short.Error())
		}
	}
	pid, err := ctx.SpawnNamed(d.HBM, "hbm")
	if err != nil {
		panic(err)
	}
	d.hbm = pid
	if d.Source != nil {
		d.observe(ctx)
	}
	supervise.After(ctx, spreadEvery, &spread{d.incarnation})
}

// onEnding blocks until no memory is being resized: the next life takes what there is for granted.
func (d *device) onEnding() {
	d.end()
	for _, z := range d.resizing {
		if z.done != nil {
			<-z.done
		}
	}
	for _, a := range d.adapting {
		if a.done != nil {
			<-a.done
		}
	}
}

// lease writes a model into the ledger: all of it, or nothing.
func (d *device) lease(spec engine.LoadSpec, facts engine.ModelInfo, kv int64) *hbm.Shortage {
	for _, part := range []struct {
		kind  string
		bytes int64
	}{
		{"weights", facts.WeightBytes}, {"workspace", facts.WorkspaceBytes(spec.Limits)}, {"kv", kv},
		{"adapters", int64(spec.AdapterPages) * hbm.PageBytes},
	} {
		if part.bytes == 0 {
			continue
		}
		if _, short := d.ledger.Lease(spec.Lease, part.kind, part.bytes); short != nil {
			d.ledger.Release(spec.Lease)
			return short
		}
	}
	return nil
}

func (d *device) state() messages.GpuState {
	switch {
	case d.quarantine != nil:
		return messages.GpuState_GPU_STATE_QUARANTINED
	case len(d.loading) > 0:
		return messages.GpuState_GPU_STATE_LOADING
	case len(d.freeing) > 0:
		return messages.GpuState_GPU_STATE_FREEING
	case len(d.held) > 0:
		return messages.GpuState_GPU_STATE_SERVING
	}
	return messages.GpuState_GPU_STATE_IDLE
}

func (d *device) status() *messages.GpuStatus {
	s := &messages.GpuStatus{
		Node: d.Node,
		Name: d.Name, Product: d.Info.Name, Uuid: d.Info.UUID, Simulated: d.Info.Simulated, State: d.state(),
		MemoryBytes: uint64(d.ledger.Total()), FreeBytes: uint64(d.ledger.Free()),
		Quarantine: d.quarantine, Health: d.health(), Facts: d.Facts,
	}
	s.Budget = d.budgetStatus()
	for _, p := range d.pools() {
		s.YieldableBytes += uint64(max(0, p.Pages-p.Min)) * hbm.PageBytes
	}
	for _, l := range d.ledger.Leases() {
		s.Leases = append(s.Leases, &messages.GpuLease{
			Owner: l.Owner, Kind: l.Kind, Bytes: uint64(l.Bytes), Pages: uint32(len(l.Pages)),
		})
	}
	return s
}
