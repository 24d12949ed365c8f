package capacity

// Series is the number of devices that each model used, in windows of equal length.
type Series struct {
	Models []string
	Used   [][]Figure // by window, then by model
}

// Peak returns the greatest number of devices that a model used, and its mean. Both are unknown if one of
// the windows is.
func (s Series) Peak(model int) (peak, mean Figure) {
	column := make([]Figure, len(s.Used))
	for i, window := range s.Used {
		column[i] = window[model]
	}
	if len(column) == 0 {
		return Unknown("nothing was observed"), Unknown("nothing was observed")
	}
	average := func(v []float64) float64 { return sum(v) / float64(len(v)) }
	return compute(greatest, column...), compute(average, column...)
}

// Together returns the greatest number of devices that all models used in one window.
func (s Series) Together() Figure {
	totals := make([]Figure, len(s.Used))
	for i, window := range s.Used {
		totals[i] = compute(sum, window...)
	}
	if len(totals) == 0 {
		return Unknown("nothing was observed")
	}
	return compute(greatest, totals...)
}

// Observe sets the peak and the average of models from a series, whose models are the same. A model without
// devices has no shares.
func Observe(models []Model, s Series) []Model {
	seen := make([]Model, len(models))
	for i, m := range models {
		peak, mean := s.Peak(i)
		m.Peak, m.Average = shareOf(peak, m.Devices), shareOf(mean, m.Devices)
		seen[i] = m
	}
	return seen
}

// shareOf returns used as a fraction of devices. It is unknown if there are no devices.
func shareOf(used, devices Figure) Figure {
	if devices == Known(0) {
		return Unknown("no devices")
	}
	return compute(func(v []float64) float64 { return v[0] / v[1] }, used, devices)
}
