package page

import "troupe/simulate"

// panel is a figure over time.
type panel struct {
	heading string
	unit    unit
	most    float64 // of the axis; 0: the largest value
	of      func(*simulate.Series, simulate.ModelSeries) []*float64
}

var panels = []panel{
	{"SLO attainment", shares, 1, each(func(m *simulate.ModelSeries) []*float64 { return m.SLOAttainment })},
	{"Goodput: requests within the SLO", perSecond, 0,
		mean(func(m *simulate.ModelSeries) []float64 { return m.Goodput })},
	{"Queue: waiting requests", plain, 0, mean(func(m *simulate.ModelSeries) []float64 { return m.Waiting })},
	{"Running sequences", plain, 0, mean(func(m *simulate.ModelSeries) []float64 { return m.Running })},
	{"KV hits: share of the tokens of prompts", shares, 1,
		each(func(m *simulate.ModelSeries) []*float64 { return m.KVHits })},
	{"Arrivals: requests", perSecond, 0, arrivals},
	{"Replicas that serve", whole, 0, mean(func(m *simulate.ModelSeries) []float64 { return m.Replicas })},
	{"Replicas that begin to load, drain or wait", whole, 0, changes},
}

// each returns the values of a panel that are not known everywhere.
func each(of func(*simulate.ModelSeries) []*float64) func(*simulate.Series, simulate.ModelSeries) []*float64 {
	return func(_ *simulate.Series, m simulate.ModelSeries) []*float64 { return of(&m) }
}

// mean returns the values of a panel that are known everywhere.
func mean(of func(*simulate.ModelSeries) []float64) func(*simulate.Series, simulate.ModelSeries) []*float64 {
	return func(_ *simulate.Series, m simulate.ModelSeries) []*float64 { return known(of(&m)) }
}

func arrivals(s *simulate.Series, m simulate.ModelSeries) []*float64 {
	rates := make([]float64, len(m.Arrivals))
	for i, n := range m.Arrivals {
		from, to := bucket(s, i)
		rates[i] = float64(n) / (to - from)
	}
	return known(rates)
}

// changes returns how often replicas of a model began to be in other states than serving. It returns nothing
// for a model whose replicas only serve.
func changes(s *simulate.Series, m simulate.ModelSeries) []*float64 {
	counts, some := make([]float64, len(m.Arrivals)), false
	for _, d := range s.Devices {
		until := make(map[string]float64) // end of the last other state, by replica
		for _, i := range d.Intervals {
			if i.Model != m.Model || i.State == "serving" {
				continue
			}
			if last, ok := until[i.Replica]; !ok || last < i.From {
				counts[min(int(i.From/s.BucketSeconds), len(counts)-1)]++
			}
			until[i.Replica], some = i.To, true
		}
	}
	if !some {
		return nil
	}
	return known(counts)
}

// bucket returns the begin and the end of a bucket, in seconds.
func bucket(s *simulate.Series, i int) (from, to float64) {
	from = float64(i) * s.BucketSeconds
	return from, min(s.Seconds, from+s.BucketSeconds)
}

func known(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i := range values {
		out[i] = &values[i]
	}
	return out
}
