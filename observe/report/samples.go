package report

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/capacity"
	"troupe/messages"
)

// Combine returns one report from several of the same cluster, taken at equal distances within a time. The devices
// of a model are the greatest number that it had. There must be at least one.
func Combine(samples []*messages.CapacityReport, within time.Duration, price *float64) *messages.CapacityReport {
	latest := samples[len(samples)-1]
	var names []string
	for _, s := range samples {
		for _, m := range s.GetModels() {
			names = append(names, m.GetModel())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	series := capacity.Series{Models: names, Used: make([][]capacity.Figure, len(samples))}
	held := capacity.Series{Models: names, Used: make([][]capacity.Figure, len(samples))}
	models := make([]capacity.Model, len(names))
	for i, name := range names {
		models[i] = capacity.Model{Name: name}
		for j, s := range samples {
			m := modelOf(s, name)
			used, devices := capacity.Known(0), capacity.Known(0)
			if m != nil { // otherwise it was not deployed then
				one := capacity.Model{Devices: known(m.GetDevices())}
				used, devices = one.Used(known(m.GetAverage())), one.Devices
				models[i].Bytes, models[i].MinDevices = known(m.GetBytes()), known(m.GetMinDevices())
			}
			series.Used[j] = append(series.Used[j], used)
			held.Used[j] = append(held.Used[j], devices)
		}
		models[i].Devices, _ = held.Peak(i)
	}
	r := Message(capacity.New(capacity.Input{
		Models: capacity.Observe(models, series), Together: series.Together(), Present: present(latest),
		Price: priceOf(price),
	}))
	r.Observed, r.SoftwareDevices, r.Source = durationpb.New(within), latest.GetSoftwareDevices(), latest.GetSource()
	return r
}

func modelOf(r *messages.CapacityReport, name string) *messages.ModelCapacity {
	for _, m := range r.GetModels() {
		if m.GetModel() == name {
			return m
		}
	}
	return nil
}

// present returns the number of devices of the cluster.
func present(r *messages.CapacityReport) capacity.Figure {
	for _, p := range r.GetPools() {
		if p.GetPool() == capacity.Present.String() {
			return known(p.GetDevices())
		}
	}
	return capacity.Figure{}
}
