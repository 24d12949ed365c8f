//go:build cgo

package telemetry

import (
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// GPU is a device reported by NVML.
type GPU struct {
	lib    *Library
	device nvml.Device
	facts  Facts
	events nvml.EventSet // nil if the device reports none
	links  map[string]int
}

// bySwitch is the far end of NVLinks to a switch, which connects all devices on it.
const bySwitch = "switch"

// Facts implements Source.
func (g *GPU) Facts() Facts { return g.facts }

// number queries a single number.
func number[N int | uint32 | uint64](g *GPU, symbol string, get func() (N, nvml.Return)) (value N, ok bool) {
	r := g.lib.ask(func() (r nvml.Return) { value, r = get(); return r }, symbol)
	return value, r == nvml.SUCCESS
}

func (g *GPU) readFacts() {
	d, f := g.device, &g.facts
	g.lib.ask(func() (r nvml.Return) { f.Name, r = d.GetName(); return r }, "nvmlDeviceGetName")
	g.lib.ask(func() (r nvml.Return) { f.UUID, r = d.GetUUID(); return r }, "nvmlDeviceGetUUID")
	g.lib.ask(func() nvml.Return {
		pci, r := d.GetPciInfo()
		f.PCI = text(pci.BusId[:])
		return r
	}, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	g.lib.ask(func() nvml.Return {
		m, r := d.GetMemoryInfo()
		f.MemoryBytes = int64(m.Total)
		return r
	}, "nvmlDeviceGetMemoryInfo")
	limit, _ := number(g, "nvmlDeviceGetEnforcedPowerLimit", d.GetEnforcedPowerLimit)
	f.PowerLimit = uint64(limit)
	f.PCIe.Generation, _ = number(g, "nvmlDeviceGetMaxPcieLinkGeneration", d.GetMaxPcieLinkGeneration)
	f.PCIe.Width, _ = number(g, "nvmlDeviceGetMaxPcieLinkWidth", d.GetMaxPcieLinkWidth)
	g.links = g.nvlinks()
}

// nvlinks counts the active links by the PCI address of their far end.
func (g *GPU) nvlinks() map[string]int {
	far := make(map[string]int)
	for i := range nvml.NVLINK_MAX_LINKS {
		if !g.up(i) {
			continue
		}
		end := ""
		g.lib.ask(func() nvml.Return {
			pci, r := g.device.GetNvLinkRemotePciInfo(i)
			end = text(pci.BusId[:])
			return r
		}, "nvmlDeviceGetNvLinkRemotePciInfo_v2")
		g.lib.ask(func() nvml.Return {
			kind, r := g.device.GetNvLinkRemoteDeviceType(i)
			if r == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				end = bySwitch
			}
			return r
		}, "nvmlDeviceGetNvLinkRemoteDeviceType")
		far[end]++
	}
	return far
}

func (g *GPU) up(link int) bool {
	state, ok := nvml.EnableState(0), false
	g.lib.ask(func() (r nvml.Return) {
		state, r = g.device.GetNvLinkState(link)
		ok = r == nvml.SUCCESS
		return r
	}, "nvmlDeviceGetNvLinkState")
	return ok && state == nvml.FEATURE_ENABLED
}

func (g *GPU) neighbours(all []*GPU) (near []Neighbour) {
	for _, other := range all {
		if other == g {
			continue
		}
		n := Neighbour{
			UUID:    other.facts.UUID,
			NVLinks: g.links[other.facts.PCI] + min(g.links[bySwitch], other.links[bySwitch]),
		}
		g.lib.ask(func() nvml.Return {
			level, r := g.device.GetTopologyCommonAncestor(other.device)
			if r == nvml.SUCCESS {
				n.Level = levels[level]
			}
			return r
		}, "nvmlDeviceGetTopologyCommonAncestor")
		near = append(near, n)
	}
	return near
}

var levels = map[nvml.GpuTopologyLevel]Level{
	nvml.TOPOLOGY_INTERNAL: SameBoard, nvml.TOPOLOGY_SINGLE: OneSwitch, nvml.TOPOLOGY_MULTIPLE: SeveralBridges,
	nvml.TOPOLOGY_HOSTBRIDGE: HostBridge, nvml.TOPOLOGY_NODE: SameNUMA, nvml.TOPOLOGY_SYSTEM: OtherNUMA,
}

// text returns the C string in an array.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
