package schedule

import (
	"math"
	"slices"
)

// check returns the snapshot with impossible figures replaced by unknown ones.
func check(s Snapshot) Snapshot {
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Memory = max(0, d.Memory)
		d.Utilization = share(d.Utilization)
		if !(d.KVReserve >= 0 && d.KVReserve < 1) {
			d.KVReserve = 0
		}
	}
	s.Models = slices.Clone(s.Models)
	for i := range s.Models {
		m := &s.Models[i]
		m.Min, m.Max = max(0, m.Min), max(0, m.Max)
		m.Min = min(m.Min, m.Max)
		m.Priority = min(m.Priority, Batch)
		d := &m.Demand
		for _, n := range []*int{&d.Running, &d.Waiting, &d.Pending, &d.Places} {
			*n = max(0, *n)
		}
		d.Rate, d.Recent, d.Capacity = rate(d.Rate), rate(d.Recent), max(0, rate(d.Capacity))
		d.KV, d.Utilization = share(d.KV), share(d.Utilization)
	}
	return s
}

// share returns a share, or -1 if it is not one.
func share(x float64) float64 {
	if !(x >= 0 && x <= 1) {
		return -1
	}
	return x
}

// rate returns a rate, or -1 if it is not one.
func rate(x float64) float64 {
	if !(x >= 0) || math.IsInf(x, 0) {
		return -1
	}
	return x
}
