package scenario

import (
	"strings"

	"troupe/core/schedule"
)

// policies reads the figures of plans.
func (s *Scenario) policies(f *File) error {
	p := f.Policies
	o := schedule.Options{Policy: p.Policy, Placement: p.Placement, SpikeFactor: p.SpikeFactor,
		SpikeArrivals: p.SpikeArrivals, Headroom: p.Headroom, DownHeadroom: p.DownHeadroom, KVFull: p.KVFull,
		UpAt: p.UpAt, DownAt: p.DownAt, QueueAt: p.QueueAt, ShareBelow: p.ShareBelow, FillBelow: p.FillBelow, ParkBelow: p.ParkBelow,
		DownAfter: p.DownAfter.Duration, IdleAfter: p.IdleAfter.Duration, Residence: p.Residence.Duration,
		ResidenceLoads: p.ResidenceLoads, StartTimeout: p.StartTimeout.Duration}
	if o.Check() != nil {
		key, name, names := "policy", o.Policy, schedule.Policies()
		if (schedule.Options{Policy: o.Policy}).Check() == nil {
			key, name, names = "placement", o.Placement, schedule.Placements()
		}
		return f.wrong("policies."+key, "is %q; use one of %s", name, strings.Join(names, ", "))
	}
	for _, n := range []struct {
		key  string
		is   float64
		most float64
	}{
		{"spike_factor", p.SpikeFactor, 1e6}, {"spike_arrivals", p.SpikeArrivals, 1e9}, {"headroom", p.Headroom, 1},
		{"down_headroom", p.DownHeadroom, 1}, {"kv_full", p.KVFull, 1}, {"up_at", p.UpAt, 1e3},
		{"down_at", p.DownAt, 1e3},
		{"queue_at", p.QueueAt, 1e6}, {"share_below", p.ShareBelow, 1}, {"fill_below", p.FillBelow, 1},
		{"park_below", p.ParkBelow, 1}, {"residence_loads", p.ResidenceLoads, 1e6},
		{"down_after", p.DownAfter.Seconds(), 1e9}, {"idle_after", p.IdleAfter.Seconds(), 1e9},
		{"residence", p.Residence.Seconds(), 1e9}, {"start_timeout", p.StartTimeout.Seconds(), 1e9},
	} {
		if !(n.is >= 0 && n.is <= n.most) {
			return f.wrong("policies."+n.key, "is not from 0 to %v; leave it out for the default", n.most)
		}
	}
	s.Config.Policies = o
	return nil
}
