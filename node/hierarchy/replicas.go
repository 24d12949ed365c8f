package hierarchy

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica"
	"troupe/actors/model/replica/copier"
	"troupe/actors/model/replica/migration/transfer"
	"troupe/actors/model/replicaset"
	"troupe/actors/model/stepper"
	core "troupe/core/replica"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
	"troupe/node/gpus"
	"troupe/node/query"
)

// Replicas are the replicas of a node.
type Replicas struct {
	GPUs  *gpus.GPUs
	Tiers Tiers
	Fence *replicaset.Fence
	Plane replica.Bulk
	// CheckFolder returns whether a replica could be loaded again from its folder.
	CheckFolder func(spec *messages.ReplicaSpec, revision string) core.Folder
	// Pins returns the pinned prefixes of a model, and a version that changes when they do.
	Pins      func(model string) (uint64, []*messages.PinnedPrefix)
	HostCache HostCache // of adapters
	// AdapterLoaded counts a copy of an adapter of a model to a device; nil: they are not counted.
	AdapterLoaded func(model, key string)
	Watch         core.Watch
	Publish       func(kind, subject, detail string)
}

// Props returns the props of the group of replicas.
func (r Replicas) Props(b *Base) *actor.Props {
	return replicaset.Props(replicaset.Config{Node: b.Node, Fence: r.Fence, Strategy: b.Strategy(),
		GPUs: r.GPUs.Names(), Log: b.Log,
		GPU: func(gpu string) *actor.PID { return b.pid(query.GPU(gpu)) },
		Replica: func(spec *messages.ReplicaSpec, deployment *actor.PID) *actor.Props {
			return b.instrumentOf("replica", spec.GetEngine().GetKind(), r.replica(b, spec, deployment))
		}})
}

func (r Replicas) replica(b *Base, spec *messages.ReplicaSpec, deployment *actor.PID) *actor.Props {
	device := query.GPU(spec.GetGpu())
	return replica.Props(replica.Config{
		Spec: spec, GPU: b.pid(device), HBM: b.pid(device + "/hbm"), Deployment: deployment,
		Router: b.pid(query.Router), Strategy: b.Strategy(),
		Log: b.Log.With().Str("model", spec.GetModel()).Logger(),
		Engine: func(handle string, gate func(uint64) (engine.Gate, error)) *actor.Props {
			return r.engine(b, spec, handle, gate)
		},
		OpenBlocks:  func(handle string) (replica.Blocks, error) { return r.blocks(b, spec.GetGpu(), handle) },
		Bulk:        r.Plane,
		CheckFolder: func(revision string) core.Folder { return r.CheckFolder(spec, revision) },
		Tiers:       r.Tiers.forReplicas(b),
		Copier:      func(of replica.CopierSpec) *actor.Props { return r.copier(b, spec.GetGpu(), of) },
		Pins:        func() (uint64, []*messages.PinnedPrefix) { return r.Pins(spec.GetModel()) },
		Transfers: func(cfg transfer.Config) *actor.Props {
			return b.Instrument("transfers", transfer.Props(cfg))
		},
		Adapters: func(handle string) *actor.Props { return r.adapters(b, spec, handle) },
		Watch:    r.Watch, Publish: r.Publish,
	})
}

// engine returns the props of the actor that runs a replica's steps.
func (r Replicas) engine(
	b *Base, spec *messages.ReplicaSpec, handle string, gate func(uint64) (engine.Gate, error),
) *actor.Props {
	gpu := spec.GetGpu()
	return b.Instrument("engine", stepper.Props(stepper.Config{
		GPU: b.pid(query.GPU(gpu)), Lease: spec.GetName(), Gate: gate, Peaks: r.GPUs.Peaks(gpu),
		Open: func() (engine.Engine, error) {
			h, err := r.GPUs.ModelsOf(gpu)
			if err != nil {
				return nil, err
			}
			return h.Open(handle)
		},
		Adapter: func(key string) (*engine.Adapter, error) { return r.GPUs.Adapter(gpu, handle, key) },
	}))
}

// copier returns the props of the actor that copies a replica's blocks.
func (r Replicas) copier(b *Base, gpu string, of replica.CopierSpec) *actor.Props {
	all := r.Tiers.forReplicas(b)
	cfg := copier.Config{
		Incarnation: of.Incarnation, Remote: all.Remote, Bulk: r.Plane, Gate: of.Gate, OnCopied: all.OnCopied,
		OpenBlocks: func() (copier.Blocks, error) { return r.blocks(b, gpu, of.Handle) },
	}
	for _, t := range all.Lower {
		cfg.Tiers = append(cfg.Tiers, copier.Tier{Name: t.Name, Actor: t.Actor, Store: t.Store})
	}
	return b.Instrument("copier", copier.Props(cfg))
}

// blocks opens the KV blocks of the lease of a handle. If the device is lost, the GPU actor learns of it
// before the caller crashes, since the device would otherwise seem well until its next observation.
func (r Replicas) blocks(b *Base, gpu, handle string) (replica.Blocks, error) {
	h, err := r.GPUs.ModelsOf(gpu)
	if err != nil {
		return nil, err
	}
	blocks, err := h.OpenBlocks(handle)
	if errors.Is(err, cuda.ErrDeviceLost) {
		b.System.Root.Send(b.pid(query.GPU(gpu)), &messages.DeviceFailed{Lease: handle, Detail: err.Error()})
	}
	return blocks, err
}
