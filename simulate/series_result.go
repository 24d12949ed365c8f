package simulate

import (
	"cmp"
	"slices"
	"time"

	core "troupe/core/replica"
)

// Series is how a run went over time, in buckets of equal length from its beginning; the last one may
// be shorter.
type Series struct {
	Seconds       float64        `json:"seconds"`        // of the run
	BucketSeconds float64        `json:"bucket_seconds"` // of each bucket
	Models        []ModelSeries  `json:"models"`
	Devices       []DeviceSeries `json:"devices"`
}

// ModelSeries has a figure of a model for each bucket. A share of nothing is nil.
type ModelSeries struct {
	Model    string `json:"model"`
	Arrivals []int  `json:"arrivals"` // requests
	// SLOAttainment is the share of the requests that ended in the bucket, also refused ones, that were
	// served within the SLO.
	SLOAttainment []*float64 `json:"slo_attainment"`
	Goodput       []float64  `json:"goodput"`  // requests served within the SLO per second
	Waiting       []float64  `json:"waiting"`  // requests, mean over the bucket
	Running       []float64  `json:"running"`  // sequences, mean over the bucket
	KVHits        []*float64 `json:"kv_hits"`  // share of the tokens of prompts found in KV blocks
	Replicas      []float64  `json:"replicas"` // that serve, mean over the bucket
}

// DeviceSeries is what ran on a device, and what was there.
type DeviceSeries struct {
	Device    string     `json:"device"` // node/device
	Busy      []Busy     `json:"busy"`   // of the models whose steps ran there, in the order of the deployments
	Intervals []Interval `json:"intervals"`
}

// Busy has the share of each bucket in which steps of a model ran on a device.
type Busy struct {
	Model string    `json:"model"`
	Share []float64 `json:"share"`
}

// Interval is a time in which a replica on a device was in one state of core/replica, in seconds from
// the beginning of the run. Intervals are in the order of their begins.
type Interval struct {
	Model   string  `json:"model"`
	Replica string  `json:"replica"`
	State   string  `json:"state"`
	From    float64 `json:"from_seconds"`
	To      float64 `json:"to_seconds"`
}

// result returns what was collected in a run of a length, or nil if nothing was.
func (c *series) result(s *simulation, length time.Duration) *Series {
	if c.width == 0 {
		return nil
	}
	end := epoch.Add(length)
	c.bucket(end.Add(-1)) // the buckets get their final length
	for _, r := range c.order {
		c.gone(r, end)
	}
	out := &Series{Seconds: length.Seconds(), BucketSeconds: c.width.Seconds()}
	buckets := int((length + c.width - 1) / c.width)
	lengths := make([]float64, buckets) // in nanoseconds
	for i := range lengths {
		lengths[i] = float64(min(c.width, length-time.Duration(i)*c.width))
	}
	serving := make(map[string]*counts)
	for _, d := range s.devices {
		out.Devices = append(out.Devices, c.deviceSeries(s, d, lengths, serving))
	}
	for _, d := range s.cfg.Deployments {
		m := s.models[d.Name]
		c.flight(m, end, 0)
		out.Models = append(out.Models, c.of(m).series(m.Name, lengths, serving[m.Name]))
	}
	return out
}

// deviceSeries returns the series of a device, and adds the nanoseconds in which its replicas served.
func (c *series) deviceSeries(s *simulation, d *device, lengths []float64, serving map[string]*counts) DeviceSeries {
	out := DeviceSeries{Device: d.name(), Busy: []Busy{}, Intervals: []Interval{}}
	for _, deployment := range s.cfg.Deployments {
		if busy := c.busy[d][s.models[deployment.Name]]; busy != nil {
			out.Busy = append(out.Busy, Busy{deployment.Name, busy.means(lengths)})
		}
	}
	slices.SortStableFunc(c.intervals[d], func(a, b interval) int {
		return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.replica.name, b.replica.name), a.to.Compare(b.to))
	})
	for _, i := range c.intervals[d] {
		model := i.replica.model.Name
		out.Intervals = append(out.Intervals, Interval{Model: model, Replica: i.replica.name, State: i.state.String(),
			From: since(i.from).Seconds(), To: since(i.to).Seconds()})
		if i.state == core.Serving {
			if serving[model] == nil {
				serving[model] = new(counts)
			}
			c.spread(serving[model], i.from, i.to, 1)
		}
	}
	return out
}

func (n *modelCounts) series(model string, lengths []float64, serving *counts) ModelSeries {
	buckets := len(lengths)
	out := ModelSeries{Model: model, Arrivals: make([]int, buckets), SLOAttainment: make([]*float64, buckets),
		Goodput: make([]float64, buckets), KVHits: make([]*float64, buckets), Running: n.running.means(lengths)}
	arrived, ended, met := n.arrived.fit(buckets), n.ended.fit(buckets), n.met.fit(buckets)
	computed, cached := n.computed.fit(buckets), n.cached.fit(buckets)
	running, inFlight := n.running.fit(buckets), n.inFlight.fit(buckets)
	waiting := make(counts, buckets)
	for i := range buckets {
		out.Arrivals[i] = int(arrived[i])
		out.SLOAttainment[i] = share(int(met[i]), int(ended[i]))
		out.Goodput[i] = float64(met[i]) / (lengths[i] / 1e9)
		out.KVHits[i] = share(int(cached[i]), int(computed[i]+cached[i]))
		waiting[i] = max(0, inFlight[i]-running[i])
	}
	out.Waiting = waiting.means(lengths)
	if serving == nil {
		serving = new(counts)
	}
	out.Replicas = serving.means(lengths)
	return out
}

// fit returns the counts of a number of buckets. What happened at the very end is in the last one.
func (n counts) fit(buckets int) counts {
	out := make(counts, buckets)
	for i, v := range n {
		out[min(i, buckets-1)] += v
	}
	return out
}

// means divides the counts by the lengths of the buckets.
func (n counts) means(lengths []float64) []float64 {
	out := make([]float64, len(lengths))
	for i, v := range n.fit(len(lengths)) {
		out[i] = float64(v) / lengths[i]
	}
	return out
}
