//go:build cgo

package telemetry

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"troupe/core/health"
)

// mostEvents is the maximum number of events per observation; the others follow with the next.
const mostEvents = 64

// subscribe registers for the device's XID events. A device without them is observed without
// events.
func (g *GPU) subscribe() {
	create := func() (r nvml.Return) { g.events, r = g.lib.nvml.EventSetCreate(); return r }
	if g.lib.ask(create, "nvmlEventSetCreate") != nvml.SUCCESS {
		g.events = nil
		return
	}
	register := func() nvml.Return { return g.device.RegisterEvents(nvml.EventTypeXidCriticalError, g.events) }
	if g.lib.ask(register, "nvmlDeviceRegisterEvents") != nvml.SUCCESS {
		g.lib.ask(func() nvml.Return { return g.events.Free() }, "nvmlEventSetFree")
		g.events = nil
	}
}

// Health implements Source.
func (g *GPU) Health() (o health.Observation) {
	o.XIDs = g.xids()
	if o.Lost = g.lost(); o.Lost != "" {
		return o
	}
	d := g.device
	g.lib.ask(func() nvml.Return {
		m, r := d.GetMemoryInfo()
		o.MemoryUsed = health.Reading{Value: m.Used, Known: r == nvml.SUCCESS}
		return r
	}, "nvmlDeviceGetMemoryInfo")
	g.lib.ask(func() nvml.Return {
		u, r := d.GetUtilizationRates()
		o.Utilisation = health.Reading{Value: uint64(u.Gpu), Known: r == nvml.SUCCESS}
		o.MemoryUtilisation = health.Reading{Value: uint64(u.Memory), Known: r == nvml.SUCCESS}
		return r
	}, "nvmlDeviceGetUtilizationRates")
	o.Temperature = reading(
		g,
		"nvmlDeviceGetTemperature",
		func() (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) },
	)
	o.Power = reading(g, "nvmlDeviceGetPowerUsage", d.GetPowerUsage)
	o.Corrected = g.errors(nvml.MEMORY_ERROR_TYPE_CORRECTED)
	o.Uncorrectable = g.errors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED)
	g.lib.ask(func() (r nvml.Return) {
		_, _, o.RemapPending, o.RemapFailed, r = d.GetRemappedRows()
		return r
	}, "nvmlDeviceGetRemappedRows")
	o.PCIe.Generation, _ = number(g, "nvmlDeviceGetCurrPcieLinkGeneration", d.GetCurrPcieLinkGeneration)
	o.PCIe.Width, _ = number(g, "nvmlDeviceGetCurrPcieLinkWidth", d.GetCurrPcieLinkWidth)
	for i := range nvml.NVLINK_MAX_LINKS {
		if g.up(i) {
			o.NVLinks++
		}
	}
	return o
}

func reading[N uint32 | uint64](g *GPU, symbol string, get func() (N, nvml.Return)) health.Reading {
	n, ok := number(g, symbol, get)
	return health.Reading{Value: uint64(n), Known: ok}
}

func (g *GPU) errors(kind nvml.MemoryErrorType) health.Reading {
	return reading(g, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
		return g.device.GetTotalEccErrors(kind, nvml.VOLATILE_ECC)
	})
}

// lost queries a value that every device has, and returns the reason if that fails.
func (g *GPU) lost() string {
	r := g.lib.ask(func() nvml.Return { _, r := g.device.GetMemoryInfo(); return r }, "nvmlDeviceGetMemoryInfo")
	switch r {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_GPU_NOT_FOUND:
		return r.Error()
	}
	return ""
}

// xids returns the events since the last call. It does not block.
func (g *GPU) xids() (codes []uint64) {
	if g.events == nil {
		return nil
	}
	for range mostEvents {
		var e nvml.EventData
		r := g.lib.ask(
			func() (r nvml.Return) { e, r = g.events.Wait(0); return r },
			"nvmlEventSetWait_v2",
			"nvmlEventSetWait",
		)
		if r != nvml.SUCCESS {
			break
		}
		codes = append(codes, e.EventData)
	}
	return codes
}
