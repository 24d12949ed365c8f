package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// mostBytes is the most bytes of a device, or of a part of a replica. Sums of them do not overflow.
const mostBytes = 1 << 50

// mostTime is the longest duration in a snapshot.
const mostTime = 365 * 24 * time.Hour

// Checked returns the snapshot in an order that does not depend on the given one, with impossible figures
// replaced by unknown ones, and times in the future by the present. Of devices, models and replicas with
// the same name it keeps one. Make checks its snapshot itself.
func Checked(s Snapshot) Snapshot {
	s.Devices = unique(s.Devices, func(d Device) string { return d.Name })
	for i := range s.Devices {
		checkDevice(s.At, &s.Devices[i])
	}
	s.Models = unique(s.Models, func(m Model) string { return m.Name })
	for i := range s.Models {
		checkModel(s.At, &s.Models[i])
	}
	s.Replicas = unique(s.Replicas, func(r Placed) string { return r.Name })
	for i := range s.Replicas {
		r := &s.Replicas[i]
		r.Devices = distinct(r.Devices)
		r.Progress = min(r.Progress, Leaving)
		r.Since = past(s.At, r.Since)
		r.Streams = max(0, r.Streams)
		r.Weights, r.Need.Fixed, r.Need.Min = bytes(r.Weights), bytes(r.Need.Fixed), bytes(r.Need.Min)
	}
	return s
}

func checkDevice(now time.Time, d *Device) {
	d.Memory, d.Other, d.Unused = bytes(d.Memory), bytes(d.Other), bytes(d.Unused)
	d.Utilization, d.SilentSince = share(d.Utilization), past(now, d.SilentSince)
	if !(d.KVReserve >= 0 && d.KVReserve < 1) {
		d.KVReserve = 0
	}
}

func checkModel(now time.Time, m *Model) {
	m.Min, m.Max, m.Replicas = max(0, m.Min), max(0, m.Max), max(0, m.Replicas)
	m.Min, m.Group = min(m.Min, m.Max), min(max(1, m.Group), 1<<16)
	m.Priority = min(m.Priority, Batch)
	m.Weights = bytes(m.Weights)
	for _, n := range []*int64{&m.Need.Fixed, &m.Need.Min, &m.Need.MinAlone, &m.Need.Max} {
		*n = bytes(*n)
	}
	d := &m.Demand
	for _, n := range []*int{&d.Running, &d.Waiting, &d.Pending, &d.Places} {
		*n = min(max(0, *n), math.MaxInt32)
	}
	d.Rate, d.Recent, d.Capacities = rate(d.Rate), rate(d.Recent), capacities(d.Capacities)
	d.KV, d.Utilization = share(d.KV), share(d.Utilization)
	d.Oldest, d.Last = past(now, d.Oldest), past(now, d.Last)
	for _, t := range []*time.Duration{&m.Loads.Device, &m.Loads.Host, &m.Loads.Disk, &m.IdleAfter} {
		*t = min(max(0, *t), mostTime)
	}
}

// unique returns the elements in the order of their names, one of each name.
func unique[T any](all []T, name func(T) string) []T {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	for i := 1; i < len(all); i++ {
		if name(all[i]) == name(all[i-1]) { // which one is kept must not depend on the order
			slices.SortStableFunc(all, func(a, b T) int {
				return cmp.Or(cmp.Compare(name(a), name(b)), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
			})
			return slices.CompactFunc(all, func(a, b T) bool { return name(a) == name(b) })
		}
	}
	return all
}

// distinct returns names in their order, each once.
func distinct(names []string) []string {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return distinct(slices.Delete(slices.Clone(names), i, i+1))
		}
	}
	return names
}

// past returns a time, or the present if it is in the future.
func past(now, t time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// bytes returns a number of bytes, or the nearest one that is possible.
func bytes(n int64) int64 { return min(max(0, n), mostBytes) }

// share returns a share, or -1 if it is not one.
func share(x float64) float64 {
	if !(x >= 0 && x <= 1) {
		return -1
	}
	return x
}

// capacities returns none if one of them is not possible.
func capacities(all []float64) []float64 {
	if slices.ContainsFunc(all, func(x float64) bool { return !(x > 0) || math.IsInf(x, 0) }) {
		return nil
	}
	return all
}

// rate returns a rate, or -1 if it is not one.
func rate(x float64) float64 {
	if !(x >= 0) || math.IsInf(x, 0) {
		return -1
	}
	return x
}
