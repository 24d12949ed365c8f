package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/core/backend"
	"troupe/messages"
)

var (
	deviceMemory = deviceMetric("memory_bytes", "Memory of a GPU, used (leased) or free.", "state")
	deviceTime   = deviceMetric("time_share", "Share of the last minute in which replicas ran steps on a GPU.")
	deviceRoof   = deviceMetric("roofline_share",
		"Least time for the steps of the last minute at the peak rates of a GPU, over the time that they took.")
	deviceUsed = deviceMetric("utilization",
		"Time share times roofline share of a GPU. Absent if its peak rates or the work of a step are unknown.")
	deviceFLOPs = deviceMetric("flops_per_second",
		"Floating-point operations that the models asked for in the steps of the last minute, per second of it.")
	deviceBytes = deviceMetric("bytes_per_second",
		"Bytes of weights, KV blocks and adapters that the steps of the last minute moved, per second of it.")
	devicePeakFLOPs = deviceMetric("peak_flops_per_second",
		"Peak rate of arithmetic of a GPU, measured or from a datasheet.", "source")
	devicePeakBytes = deviceMetric("peak_bytes_per_second",
		"Peak rate of a GPU's memory, measured or from a datasheet.", "source")
	deviceQuarantined = deviceMetric("quarantined", "1 if a GPU accepts no work; gpus.list has the reason.")
	deviceNVML        = deviceMetric("nvml_utilisation_percent",
		"Percent of time in which a kernel ran, as NVML reports it. Absent for software devices.")
	deviceNVMLMemory = deviceMetric("nvml_memory_utilisation_percent",
		"Percent of time in which memory was read or written, as NVML reports it.")
	deviceTemperature = deviceMetric("temperature_celsius", "Temperature of a GPU, as NVML reports it.")
	devicePower       = deviceMetric("power_watts", "Power that a GPU draws, as NVML reports it.")

	deviceSimulated = deviceMetric("simulated", "1 for a device that is only counted; others have no such metric.")

	deviceMetrics = []*prometheus.Desc{
		deviceMemory, deviceTime, deviceRoof, deviceUsed, deviceFLOPs, deviceBytes, devicePeakFLOPs, devicePeakBytes,
		deviceQuarantined, deviceNVML, deviceNVMLMemory, deviceTemperature, devicePower, deviceSimulated,
	}
)

func deviceMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("troupe_device_"+name, help, append([]string{"gpu"}, labels...), nil)
}

// collectDevices collects the metrics of GPUs. Figures that are not known are omitted.
func collectDevices(to chan<- prometheus.Metric, gpus []*messages.GpuStatus) {
	for _, g := range gpus {
		name := g.GetName()
		sendGauge(to, deviceMemory, float64(g.GetFreeBytes()), name, "free")
		sendGauge(to, deviceMemory, float64(g.GetMemoryBytes()-g.GetFreeBytes()), name, "used")
		if backend.Kind(g.GetEngine()) == backend.Simulated {
			sendGauge(to, deviceSimulated, 1, name)
		}
		quarantined := 0.0
		if g.GetQuarantine() != nil {
			quarantined = 1
		}
		sendGauge(to, deviceQuarantined, quarantined, name)
		if u := g.GetUtilization(); u != nil {
			sendGauge(to, deviceTime, u.GetTimeShare(), name)
			sendKnown(to, deviceRoof, u.RooflineShare, name)
			sendKnown(to, deviceUsed, u.Utilization, name)
			sendKnown(to, deviceFLOPs, u.FlopsPerSecond, name)
			sendKnown(to, deviceBytes, u.BytesPerSecond, name)
			sendKnown(to, devicePeakFLOPs, u.PeakFlopsPerSecond, name, u.GetPeakSource())
			sendKnown(to, devicePeakBytes, u.PeakBytesPerSecond, name, u.GetPeakSource())
		}
		h := g.GetHealth()
		if h == nil {
			continue
		}
		sendReading(to, deviceNVML, h.UtilisationPercent, 1, name)
		sendReading(to, deviceNVMLMemory, h.MemoryUtilisationPercent, 1, name)
		sendReading(to, deviceTemperature, h.TemperatureCelsius, 1, name)
		sendReading(to, devicePower, h.PowerMilliwatts, 1000, name)
	}
}

// sendKnown sends a figure, unless it is nil.
func sendKnown(to chan<- prometheus.Metric, d *prometheus.Desc, value *float64, labels ...string) {
	if value != nil {
		sendGauge(to, d, *value, labels...)
	}
}

// sendReading sends a reading in units of which so many are one, unless it is nil.
func sendReading(to chan<- prometheus.Metric, d *prometheus.Desc, value *uint32, units float64, labels ...string) {
	if value != nil {
		sendGauge(to, d, float64(*value)/units, labels...)
	}
}
