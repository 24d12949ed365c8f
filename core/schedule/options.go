package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options are the settings of the scheduler. A zero field has its default.
type Options struct {
	Policy        string        // how many replicas models want: one of Policies; default "slo"
	Placement     string        // how devices are compared: one of Placements; default "scored"
	Window        time.Duration // over which demand is measured; default 60 s
	RecentWindow  time.Duration // over which a spike is seen; default 5 s
	SpikeFactor   float64       // a spike is more than this times the usual rate; default 2
	SpikeArrivals float64       // and at least as many arrivals within RecentWindow; default 10
	Headroom      float64       // least headroom: predicted P99 over the SLO; default 0.8
	DownHeadroom  float64       // and with one replica fewer, at most; times rise faster than the load; default 0.65
	KVFull        float64       // share of KV blocks in use without headroom; default 0.9
	UpAt          float64       // share of the places in use without headroom; default 0.85
	DownAt        float64       // share of the places of the remaining replicas in use, at most; default 0.6
	QueueAt       float64       // sequences that wait per place, without headroom; default 0.125
	ShareBelow    float64       // utilization below which a device takes another model; default 0.4
	FillBelow     float64       // and below which it takes a batch model; default 0.8
	ParkBelow     float64       // utilization below which a replica is surplus; default 0.2
	DownAfter     time.Duration // how long a model must be over-provisioned; default 60 s
	IdleAfter     time.Duration // default of Model.IdleAfter: 5 minutes
	// Residence is how long a replica stays at least, unless a higher priority needs its place; default 30 s.
	Residence      time.Duration
	ResidenceLoads float64       // and at least this times as long as it took to load; default 4
	StartTimeout   time.Duration // an assignment that is not carried out is withdrawn; default 2 minutes
	StartLoads     float64       // but not within this times the expected load; default 4
	Backoff        time.Duration // first time without another attempt after a failed one; doubles; default 10 s
	MaxBackoff     time.Duration // default 10 minutes
	LeaveTimeout   time.Duration // how long the sequences of a replica that leaves may take; default 30 s
	SettleFor      time.Duration // how long a model must not have changed before a replica moves; default 10 s
	MoveBackoff    time.Duration // without another move of a model after one that failed; default 5 minutes
	// SoonWithin is how long requests wait for a node that is away, a silent device, or the end of a backoff;
	// default 30 s.
	SoonWithin time.Duration
}

// Policies returns the names of the policies, the default first.
func Policies() []string { return []string{"slo", "threshold", "static"} }

// Placements returns the names of the ways to compare devices, the default first: by the preferences in
// doc.go, or the device with the least utilization and then the fewest replicas.
func Placements() []string { return []string{"scored", "least-loaded"} }

// Check returns an error if a name is unknown. Make uses the default for it.
func (o Options) Check() error {
	for _, n := range []struct {
		what, name string
		names      []string
	}{{"policy", o.Policy, Policies()}, {"placement", o.Placement, Placements()}} {
		if n.name != "" && !slices.Contains(n.names, n.name) {
			return fmt.Errorf("unknown %s %q; use one of %s", n.what, n.name, strings.Join(n.names, ", "))
		}
	}
	return nil
}

// known returns a name if it is one of the names, and otherwise the first one.
func known(name string, names []string) string {
	if slices.Contains(names, name) {
		return name
	}
	return names[0]
}

// Idle returns how long a model keeps its replicas without a request: after, or the default if that is 0.
func (o Options) Idle(after time.Duration) time.Duration {
	return cmp.Or(after, o.withDefaults().IdleAfter)
}

// withDefaults returns the options with defaults for zero fields.
func (o Options) withDefaults() Options {
	return Options{
		Policy:         known(o.Policy, Policies()),
		Placement:      known(o.Placement, Placements()),
		Window:         cmp.Or(o.Window, time.Minute),
		RecentWindow:   cmp.Or(o.RecentWindow, 5*time.Second),
		SpikeFactor:    cmp.Or(o.SpikeFactor, 2),
		SpikeArrivals:  cmp.Or(o.SpikeArrivals, 10),
		Headroom:       cmp.Or(o.Headroom, 0.8),
		DownHeadroom:   cmp.Or(o.DownHeadroom, 0.65),
		KVFull:         cmp.Or(o.KVFull, 0.9),
		UpAt:           cmp.Or(o.UpAt, 0.85),
		DownAt:         cmp.Or(o.DownAt, 0.6),
		QueueAt:        cmp.Or(o.QueueAt, 0.125),
		ShareBelow:     cmp.Or(o.ShareBelow, 0.4),
		FillBelow:      cmp.Or(o.FillBelow, 0.8),
		ParkBelow:      cmp.Or(o.ParkBelow, 0.2),
		DownAfter:      cmp.Or(o.DownAfter, time.Minute),
		IdleAfter:      cmp.Or(o.IdleAfter, 5*time.Minute),
		Residence:      cmp.Or(o.Residence, 30*time.Second),
		ResidenceLoads: cmp.Or(o.ResidenceLoads, 4),
		StartTimeout:   cmp.Or(o.StartTimeout, 2*time.Minute),
		StartLoads:     cmp.Or(o.StartLoads, 4),
		Backoff:        cmp.Or(o.Backoff, 10*time.Second),
		MaxBackoff:     cmp.Or(o.MaxBackoff, 10*time.Minute),
		LeaveTimeout:   cmp.Or(o.LeaveTimeout, 30*time.Second),
		SettleFor:      cmp.Or(o.SettleFor, 10*time.Second),
		MoveBackoff:    cmp.Or(o.MoveBackoff, 5*time.Minute),
		SoonWithin:     cmp.Or(o.SoonWithin, 30*time.Second),
	}
}
