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
		n.addDevice(GPU{d, telemetry.Device(d)})
	}
	return nil
}

// addDevice adds a device, which is closed when the node stops.
func (n *Node) addDevice(d GPU) {
	n.devices = append(n.devices, d)
	n.residency = append(n.residency, residency.NewStore(d.Device, n.loader))
	n.closers = append(n.closers, func() { _ = d.Close() })
}

func gpuName(i int) string { return "gpu-" + strconv.Itoa(i) }

func (n *Node) gpuNames() (all []string) {
	for i := range n.devices {
		all = append(all, gpuName(i))
	}
	return all
}

func (n *Node) devicesProps() *actor.Props {
	var children []supervise.Child
	for i, d := range n.devices {
		name := gpuName(i)
		children = append(children, supervise.Child{Name: name, Props: n.instrument("gpu", gpu.Props(gpu.Config{
			Name: name, Node: n.cfg.Name, Info: d.Info(), Models: n.residency[i],
			HBM:    n.instrument("hbm", kvblock.Props(kvblock.Config{Device: name})),
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
		Pci: f.PCI, PcieMaxGeneration: uint32(f.PCIe.Generation), PcieMaxWidth: uint32(f.PCIe.Width),
		PowerLimitMilliwatts: uint32(f.PowerLimit),
	}
	for _, n := range f.Near {
		facts.Near = append(facts.Near,
			&messages.GpuNeighbour{Uuid: n.UUID, Nvlinks: uint32(n.NVLinks), Level: string(n.Level)})
	}
	return facts
}
