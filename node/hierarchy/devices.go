package hierarchy

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/gpu"
	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/cuda"
	"troupe/cuda/selftest"
	"troupe/cuda/telemetry"
	"troupe/messages"
	"troupe/node/gpus"
	"troupe/node/query"
)

// Devices are the devices of a node.
type Devices struct {
	GPUs      *gpus.GPUs
	KVReserve func(gpu string) float64                 // share of a GPU's memory that is reserved for KV blocks
	SelfTest  func(context.Context, cuda.Device) error // nil: selftest.Run
	Publish   func(kind, subject, detail string)
	HostCache HostCache
}

// Props returns the props of the group of GPU actors.
func (d Devices) Props(b *Base) *actor.Props {
	test := d.SelfTest
	if test == nil {
		test = selftest.Run
	}
	d.GPUs.UseDevices(weightsOf(d.GPUs, b))
	var children []supervise.Child
	for i, device := range d.GPUs.All() {
		name, engine := d.GPUs.Names()[i], ""
		if device.Info().Ledger {
			engine = string(backend.Simulated)
		}
		props := gpu.Props(gpu.Config{
			Name: name, Node: b.Node, Info: device.Info(), Models: d.GPUs.Models()[i],
			HostCache: d.HostCache.pid(b), Planner: b.pid(query.Planner), Peaks: d.GPUs.Peaks(name),
			HBM:    b.Instrument("hbm", kvblock.Props(kvblock.Config{Device: name})),
			Health: device.Source, Facts: factsOf(device.Source), KVReserve: d.KVReserve(name), Publish: d.Publish,
			SelfTest: func(ctx context.Context) error { return test(ctx, device.Device) },
			Strategy: b.Strategy(), Log: b.Log.With().Str("gpu", name).Logger(),
		})
		children = append(children, supervise.Child{Name: name, Props: b.instrumentOf("gpu", engine, props)})
	}
	return b.group("group", children)
}

// weightsOf returns the weights on the devices, as sources of loads.
func weightsOf(all *gpus.GPUs, b *Base) *gpu.Devices {
	w := &gpu.Devices{System: b.System, Log: b.Log}
	for i, name := range all.Names() {
		w.All = append(w.All, gpu.Device{Name: name, PID: b.pid(query.GPU(name)), Models: all.Models()[i]})
	}
	return w
}

func factsOf(s telemetry.Source) *messages.GpuFacts {
	f := s.Facts()
	facts := &messages.GpuFacts{
		Pci: f.PCI, PcieMaxGeneration: uint32(f.PCIe.Generation), PcieMaxWidth: uint32(f.PCIe.Width),
		PowerLimitMilliwatts: uint32(f.PowerLimit),
	}
	for _, n := range f.Near {
		facts.Near = append(facts.Near,
			&messages.GpuNeighbour{Uuid: n.UUID, Nvlinks: uint32(n.NVLinks), Level: string(n.Level)})
	}
	return facts
}
