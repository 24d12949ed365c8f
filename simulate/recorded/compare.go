package recorded

import (
	"math"
	"slices"

	"troupe/recording"
	"troupe/simulate"
)

// Metric is a figure of a model, as it was recorded and as it was simulated. A figure that is not known is nil.
type Metric struct {
	Model     string   `json:"model"`
	Name      string   `json:"metric"`
	Recorded  *float64 `json:"recorded"`
	Simulated *float64 `json:"simulated"`
	// Error is the relative error of the simulation; nil: a figure is not known, or the recorded one is 0.
	Error *float64 `json:"error"`

	text func(float64) string
}

// Names of the metrics.
const (
	TTFTP50     = "TTFT P50"
	TTFTP99     = "TTFT P99"
	TPOTP50     = "TPOT P50"
	TPOTP99     = "TPOT P99"
	Throughput  = "output tokens/s"
	KVHits      = "KV hits"
	Steps       = "steps"
	Preemptions = "preemptions"
	Loads       = "loads"
	Adapters    = "adapter loads"
	Switches    = "switches"
)

// Compare compares a recording with its simulation, model by model. Loads of weights and switches were recorded, but
// a simulation with replicas at fixed places has none; Lives compares those of replicas that come and go.
func Compare(r *recording.Recording, s simulate.Result) (all []Metric) {
	for _, m := range s.Models {
		is := figuresOf(r, m.Model)
		add := func(name string, recorded, simulated *float64, text func(float64) string) {
			all = append(all, newMetric(m.Model, name, recorded, simulated, text))
		}
		add(TTFTP50, quantile(is.ttft, 0.50), m.TTFTP50, seconds)
		add(TTFTP99, quantile(is.ttft, 0.99), m.TTFTP99, seconds)
		add(TPOTP50, quantile(is.tpot, 0.50), m.TPOTP50, seconds)
		add(TPOTP99, quantile(is.tpot, 0.99), m.TPOTP99, seconds)
		add(Throughput, share(is.output, is.end), share(float64(m.OutputTokens), s.Seconds), decimal)
		add(KVHits, share(is.cached, is.prompt), m.KVHits, percent)
		if r.Complete {
			add(Steps, is.steps, known(float64(m.Steps)), whole)
			add(Preemptions, is.preemptions, known(float64(m.Preemptions)), whole)
			add(Loads, is.loads, nil, whole)
			add(Adapters, is.adapters, counted(m.AdapterLoads), whole)
		}
	}
	if r.Complete {
		all = append(all, newMetric("all", Switches, switches(r), nil, whole))
	}
	return all
}

func newMetric(model, name string, recorded, simulated *float64, text func(float64) string) Metric {
	m := Metric{Model: model, Name: name, Recorded: recorded, Simulated: simulated, text: text}
	if recorded != nil && simulated != nil && *recorded != 0 {
		m.Error = known((*simulated - *recorded) / *recorded)
	}
	return m
}

// Worst returns the metric with the largest error. It reports false if no error is known.
func Worst(all []Metric) (worst Metric, ok bool) {
	for _, m := range all {
		if m.Error != nil && (!ok || math.Abs(*m.Error) > math.Abs(*worst.Error)) {
			worst, ok = m, true
		}
	}
	return worst, ok
}

// figures are what was recorded of a model.
type figures struct {
	ttft, tpot                          []float64
	prompt, cached, output              float64 // tokens
	end                                 float64 // of the last request, or of the recording
	steps, preemptions, loads, adapters *float64
}

func figuresOf(r *recording.Recording, model string) figures {
	f := figures{end: r.End.At}
	for _, q := range r.Requests {
		f.end = max(f.end, q.At+q.Took)
		if q.Model != model || q.End == recording.Refused && q.Output == 0 {
			continue
		}
		if q.TTFT != nil {
			f.ttft = append(f.ttft, *q.TTFT)
		}
		if q.TPOT != nil {
			f.tpot = append(f.tpot, *q.TPOT)
		}
		f.prompt += float64(q.Prompt)
		f.cached += float64(q.Cached)
		f.output += float64(q.Output)
	}
	slices.Sort(f.ttft)
	slices.Sort(f.tpot)
	for _, n := range []struct {
		to *(*float64)
		of func(recording.Replica) uint64
	}{
		{&f.steps, func(p recording.Replica) uint64 { return p.Steps }},
		{&f.preemptions, func(p recording.Replica) uint64 { return p.Preemptions }},
		{&f.loads, func(p recording.Replica) uint64 { return p.Loads }},
		{&f.adapters, func(p recording.Replica) uint64 { return p.AdapterLoads }},
	} {
		total := 0.0
		for _, p := range r.End.Replicas {
			if p.Model == model {
				total += grown(before(r, p), p, n.of)
			}
		}
		*n.to = &total
	}
	return f
}

// before returns a replica as it was at the beginning, or the zero value.
func before(r *recording.Recording, p recording.Replica) recording.Replica {
	for _, q := range r.Snapshot.Replicas {
		if q.Name == p.Name && q.Node == p.Node {
			return q
		}
	}
	return recording.Replica{}
}

// grown returns by how much a total of a replica has grown. One that is smaller began again.
func grown(a, b recording.Replica, of func(recording.Replica) uint64) float64 {
	if of(b) < of(a) {
		return float64(of(b))
	}
	return float64(of(b) - of(a))
}

// switches returns how many switches of devices ended.
func switches(r *recording.Recording) *float64 {
	total := func(nodes []recording.Node) (n float64) {
		for _, node := range nodes {
			for _, d := range node.Devices {
				n += float64(d.Switches)
			}
		}
		return n
	}
	return known(max(0, total(r.End.Nodes)-total(r.Snapshot.Nodes)))
}

// quantile returns the least of sorted values that at least the share q of them does not exceed, as the simulator
// does; nil: there are none.
func quantile(sorted []float64, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	return &sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func share(n, of float64) *float64 {
	if of == 0 {
		return nil
	}
	return known(n / of)
}

func known(v float64) *float64 { return &v }

func counted(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	return known(float64(*n))
}
