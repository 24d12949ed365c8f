package node

import (
	"context"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/gpu"
	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/cuda/host"
	"troupe/cuda/selftest"
	"troupe/cuda/telemetry"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
)

// openDevices opens the software devices.
func (n *Node) openDevices(context.Context) error {
	for _, cfg := range n.cfg.Devices {
		d, err := host.Open(cfg)
		if err != nil {
			return err
		}
		n.adopt(GPU{d, telemetry.Device(d)})
	}
	return nil
}

// adopt takes a device over: it is closed when the node ends.
func (n *Node) adopt(d GPU) {
	n.devices = append(n.devices, d)
	format := engine.Format(n.format())
	if n.cfg.WrapFormat != nil {
		format = n.cfg.WrapFormat(format)
	}
	n.holders = append(n.holders, residency.NewHolder(d.Device, format))
	n.undo = append(n.undo, func() { _ = d.Close() })
}

// format is how this node loads models.
func (n *Node) format() llama.Format { return llama.Format{Roots: n.cfg.Roots, Digests: &n.digests} }

func gpuName(i int) string { return "gpu-" + strconv.Itoa(i) }

func (n *Node) devicesProps() *actor.Props {
	var children []supervise.Child
	for i, d := range n.devices {
		name := gpuName(i)
		children = append(children, supervise.Child{Name: name, Props: n.as("gpu", gpu.Props(gpu.Config{
			Name: name, Node: n.cfg.Name, Info: d.Info(), Models: n.holders[i], HBM: n.as("hbm", kvblock.Props(kvblock.Config{Device: name})),
			Health: d.Source, Facts: factsOf(d.Source), KVReserve: n.cfg.kvReserve(name), Publish: n.events.Publish,
			SelfTest: func(ctx context.Context) error { return selftest.Run(ctx, d.Device) },
			Strategy: n.strategy(), Log: n.cfg.Log.With().Str("gpu", name).Logger(),
		}))})
	}
	return supervise.Group(supervise.GroupConfig{Children: children, Strategy: n.strategy(), Log: n.cfg.Log})
}

func factsOf(s telemetry.Source) *messages.GpuFacts {
	f := s.Facts()
	facts := &messages.GpuFacts{
		Pci: f.PCI, PcieMaxGeneration: uint32(f.PCIe.Generation), PcieMaxWidth: uint32(f.PCIe.Width), PowerLimitMilliwatts: uint32(f.PowerLimit),
	}
	for _, n := range f.Near {
		facts.Near = append(facts.Near, &messages.GpuNeighbour{Uuid: n.UUID, Nvlinks: uint32(n.NVLinks), Level: string(n.Level)})
	}
	return facts
}
