package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

var (
	switches = prometheus.NewDesc("troupe_switches_total",
		"Switches of a GPU from one model to another that have ended, by outcome: switched, or failed.",
		[]string{"gpu", "outcome"}, nil)
	switchSeconds = prometheus.NewDesc("troupe_switch_phase_seconds_total",
		"Time of the switches of a GPU, by phase: drain, free, load, start.", []string{"gpu", "phase"}, nil)
	switchBytes = prometheus.NewDesc("troupe_switch_loaded_bytes_total",
		"Bytes of weights that the switches of a GPU have loaded.", []string{"gpu"}, nil)
	switchMetrics = []*prometheus.Desc{switches, switchSeconds, switchBytes}
)

func collectSwitches(to chan<- prometheus.Metric, gpus []*messages.GpuStatus) {
	for _, g := range gpus {
		name, s := g.GetName(), g.GetSwitches()
		sendCounter(to, switches, float64(s.GetSwitched()), name, "switched")
		sendCounter(to, switches, float64(s.GetFailed()), name, "failed")
		for _, phase := range []struct {
			name string
			took *durationpb.Duration
		}{{"drain", s.GetDrain()}, {"free", s.GetFree()}, {"load", s.GetLoad()}, {"start", s.GetStart()}} {
			sendCounter(to, switchSeconds, phase.took.AsDuration().Seconds(), name, phase.name)
		}
		sendCounter(to, switchBytes, float64(s.GetBytes()), name)
	}
}
