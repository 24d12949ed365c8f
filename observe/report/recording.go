package report

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/capacity"
	"troupe/messages"
	"troupe/recording"
)

// holding are the states in which a replica occupies its device, as in holdsDevice.
var holding = map[string]bool{"loading": true, "serving": true, "draining": true, "suspending": true}

// Recorded returns the report of a recording: what models held at most, and which share of the time their replicas ran
// steps, between two samples of the recording.
func Recorded(r *recording.Recording, price *float64) (*messages.CapacityReport, error) {
	if !r.Complete || r.End.At <= 0 {
		return nil, fmt.Errorf("the recording has no end, and so no totals; record again, and end it with Ctrl-C " +
			"or --for")
	}
	samples := samplesOf(r)
	in := capacity.Input{Price: priceOf(price)}
	series := capacity.Series{Used: make([][]capacity.Figure, len(samples)-1)}
	var models []capacity.Model
	for _, d := range r.Snapshot.Deployments {
		m := capacity.Model{Name: d.Name, Bytes: capacity.Known(float64(d.WeightBytes)), MinDevices: capacity.Known(1),
			Devices: capacity.Known(float64(held(samples, d.Name)))}
		if d.WeightBytes == 0 {
			m.Bytes = capacity.Unknown("no node had its folder")
		}
		models = append(models, m)
		for i := range series.Used {
			series.Used[i] = append(series.Used[i], capacity.Known(used(samples[i], samples[i+1], d.Name)))
		}
	}
	in.Models, in.Together = capacity.Observe(models, series), series.Together()
	devices, software := 0, uint32(0)
	for _, n := range r.Snapshot.Nodes {
		for _, d := range n.Devices {
			if devices++; d.Software {
				software++
			}
		}
	}
	in.Present = capacity.Known(float64(devices))
	m := Message(capacity.New(in))
	m.Observed = durationpb.New(recording.Duration(r.End.At).Round(time.Millisecond))
	m.SoftwareDevices, m.Source = software, "recording"
	return m, nil
}

// samplesOf returns the totals at the beginning, at each sample, and at the end. A last window that is shorter than
// half the one before it is a part of that.
func samplesOf(r *recording.Recording) []recording.Sample {
	all := append([]recording.Sample{{Replicas: r.Snapshot.Replicas}}, r.Samples...)
	if n := len(all); n > 1 && r.End.At-all[n-1].At < (all[n-1].At-all[n-2].At)/2 {
		all = all[:n-1]
	}
	return append(all, recording.Sample{At: r.End.At, Replicas: r.End.Replicas})
}

// held returns the greatest number of devices that a model had in a sample.
func held(samples []recording.Sample, model string) (most int) {
	for _, s := range samples {
		on := make(map[string]bool)
		for _, p := range s.Replicas {
			if p.Model == model && holding[p.State] && p.Device != "" {
				on[p.Node+"/"+p.Device] = true
			}
		}
		most = max(most, len(on))
	}
	return most
}

// used returns how many devices were busy with a model between two samples, on average.
func used(from, to recording.Sample, model string) (devices float64) {
	before := make(map[string]float64)
	for _, p := range from.Replicas {
		before[p.Node+"/"+p.Name] = p.StepSeconds
	}
	for _, p := range to.Replicas {
		if p.Model != model {
			continue
		}
		was := before[p.Node+"/"+p.Name]
		if p.StepSeconds < was { // it was started again
			was = 0
		}
		devices += p.StepSeconds - was
	}
	return devices / cmp.Or(to.At-from.At, 1)
}
