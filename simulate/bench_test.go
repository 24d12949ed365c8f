package simulate

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"troupe/workload"
)

// BenchmarkDay simulates 16 devices and four models for 24 hours.
func BenchmarkDay(b *testing.B) { benchmarkRun(b, 16, 24*time.Hour) }

// BenchmarkHour shows how the time grows with the number of devices, with as many requests for each.
func BenchmarkHour(b *testing.B) {
	for _, devices := range []int{16, 64, 256, 1024} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) { benchmarkRun(b, devices, time.Hour) })
	}
}

func benchmarkRun(b *testing.B, size int, length time.Duration) {
	cfg := Config{Duration: length, KVReserve: 0.3, Devices: devices(size)}
	models := []string{"a", "b", "c", "d"}
	for i, name := range models {
		d := deploy(name, size/4)
		d.MaxSequences, d.MaxWaiting, d.StepTokens = 64, 1024, 512
		for j := range size / 4 {
			d.Devices = append(d.Devices, fmt.Sprintf("a/gpu-%d", i*size/4+j))
		}
		cfg.Deployments = append(cfg.Deployments, d)
	}
	debug.SetGCPercent(400) // as troupe simulate does
	var steps uint64
	var hours float64
	cpu := cpuTime(b)
	for b.Loop() {
		result, err := Run(cfg, arrivals(models, float64(size)*0.028, length))
		if err != nil {
			b.Fatal(err)
		}
		steps += result.Steps
		hours += result.DeviceHours
	}
	cpu = cpuTime(b) - cpu
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(steps)/cpu.Seconds(), "steps/cpu-s")
	b.ReportMetric(hours/cpu.Seconds(), "device-hours/cpu-s")
}

// cpuTime returns the time that all threads of this process have used cores. Unlike the elapsed time, it
// hardly depends on what else the machine does.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// arrivals returns Poisson arrivals at a rate per second.
func arrivals(models []string, rate float64, length time.Duration) workload.Source {
	return workload.Load{
		Length: length, Rate: rate, Models: workload.Names{List: models},
		Prompt: workload.Lengths{Quantiles: []workload.Quantile{{Share: 0, Tokens: 200}, {Share: 1, Tokens: 1000}}},
		Output: workload.Lengths{Quantiles: []workload.Quantile{{Share: 0, Tokens: 50}, {Share: 1, Tokens: 350}}},
	}.Requests(rand.NewPCG(1, 1).Uint64())
}
