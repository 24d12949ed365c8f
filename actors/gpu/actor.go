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

// Models holds the models in one device's memory. It is safe for concurrent use and survives every
// actor.
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
	Node   string // the device's node
	Name   string // "gpu-0"
	Info   cuda.Info
	Models Models
	HBM    *actor.Props // props of the child
	Health HealthSource // observed every second; nil: the device is not observed
	Facts  *messages.GpuFacts
	// KVReserve is the share of the device's memory that is reserved for KV blocks.
	KVReserve float64
	// SelfTest tests the device. It may hang if the device does.
	SelfTest func(context.Context) error
	// Publish publishes life-cycle events; it must not block.
	Publish  func(kind, subject, detail string)
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the props of a gpu actor.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	kept := &sharedState{}
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &device{Config: cfg, sharedState: kept, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

type device struct {
	Config
	*sharedState
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	hbm           *actor.PID
	ledger        *hbm.Ledger
	held          map[string]residency.Loaded // lease -> its model
	loading       map[string]*load            // lease -> the load in flight
	freeing       map[string][]requester      // lease -> requesters that wait until it is free
	kvUsers       map[string]kvUser           // lease -> last report on its KV memory
	resizing      map[string]*resize          // lease -> resize of its KV memory
	notResizable  map[string]bool             // leases that cannot be resized
	adapterLeases map[string]*adapterLease    // lease -> adapter memory being leased for it
	attempt       uint64                      // number of the last resize; unique over all incarnations
	lastDemand    time.Time                   // when memory was last wanted for anything but growth

	selfTesting       bool                 // a self-test is running
	tested            *messages.Quarantine // what quarantined the device when that self-test started
	lastSelfTest      time.Time            // start of the last self-test or of the quarantine
	releaseRequesters []requester          // wait for the self-test
}

// load is a model being loaded to the device.
type load struct {
	command    *messages.LoadModel // of the first request
	requesters []requester
	started    time.Time
	facts      engine.ModelInfo // valid once inspected
	budgeted   bool             // the budget has room for it
	waiting    bool             // for memory that other replicas yield
	deadline   time.Time        // of the wait; zero: it has not waited yet
}

type requester struct {
	requestID string
	replyTo   *actor.PID
}

// inspected, loaded and unloaded are messages to self.
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
		d.onStopping()
	case *actor.Stopping:
		d.onStopping()
		d.jobs.Wait() // the device is closed as soon as the actor has stopped
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
		d.receiveMemory(ctx)
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
		d.onDeviceFailed(msg)
	case *messages.QuarantineGpu:
		d.onQuarantine(ctx, msg)
	case *messages.ReleaseGpu:
		d.onRelease(ctx, msg)
	case *tested:
		d.onTested(ctx, msg)
	default:
		supervise.Unknown(ctx, "gpu")
	}
}

func (d *device) onStarted(ctx actor.Context) {
	d.lifetime, d.cancel = context.WithCancel(context.Background())
	d.held = make(map[string]residency.Loaded)
	d.loading = make(map[string]*load)
	d.freeing = make(map[string][]requester)
	d.kvUsers, d.resizing, d.notResizable = make(map[string]kvUser), make(map[string]*resize), make(map[string]bool)
	d.adapterLeases = make(map[string]*adapterLease)
	d.attempt, d.lastDemand = uint64(time.Now().UnixNano()), time.Now()
	d.ledger = hbm.NewLedger(d.Info.MemoryBytes)
	for _, m := range d.Models.Held() {
		d.held[m.Lease] = m
		if short := d.leaseModel(m.LoadSpec, m.Info, int64(m.KVBlocks)*m.KVBlockBytes); short != nil {
			panic("gpu: " + d.Name + " holds more memory than it has: " + short.Error())
		}
	}
	pid, err := ctx.SpawnNamed(d.HBM, "hbm")
	if err != nil {
		panic(err)
	}
	d.hbm = pid
	if d.Health != nil {
		d.observe(ctx)
	}
	supervise.After(ctx, distributeInterval, &distributeTick{d.incarnation})
}

// onStopping blocks until no resize is running: the next incarnation rebuilds its ledger from the
// memory as it is.
func (d *device) onStopping() {
	d.cancel()
	for _, z := range d.resizing {
		if z.done != nil {
			<-z.done
		}
	}
	for _, a := range d.adapterLeases {
		if a.done != nil {
			<-a.done
		}
	}
}

// leaseModel leases the pages of a model, all or none.
func (d *device) leaseModel(spec engine.LoadSpec, facts engine.ModelInfo, kv int64) *hbm.Shortage {
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
	s.Budget = d.budgetReport()
	for _, p := range d.resizablePools() {
		s.YieldableBytes += uint64(max(0, p.Pages-p.Min)) * hbm.PageBytes
	}
	for _, l := range d.ledger.Leases() {
		s.Leases = append(s.Leases, &messages.GpuLease{
			Owner: l.Owner, Kind: l.Kind, Bytes: uint64(l.Bytes), Pages: uint32(len(l.Pages)),
		})
	}
	return s
}
