package report

import (
	"fmt"
	"time"

	"troupe/core/capacity"
	"troupe/workload"
)

// Described is a model of a trace.
type Described struct {
	capacity.Model
	PromptRate, OutputRate float64 // tokens that one device computes in a second; 0: unknown
}

// Trace sets the peaks and averages of models from the requests of a trace. The work of a request counts in
// the window in which it arrives, and requests do not wait for each other: a use of more devices than there are
// means that there are too few. Requests without a model are for the only model.
//
// The trace is read twice. Its windows are equally long, and at most as long as window.
func Trace(models []Described, trace workload.Source, window time.Duration) (capacity.Input, error) {
	index := make(map[string]int)
	for i, m := range models {
		index[m.Name] = i
	}
	if len(models) == 1 {
		index[""] = 0
	}
	end := time.Duration(0)
	for r, err := range trace {
		if err != nil {
			return capacity.Input{}, err
		}
		if _, ok := index[r.Model]; !ok {
			return capacity.Input{}, undescribed(r.Model)
		}
		end = r.At
	}
	if end <= 0 {
		return capacity.Input{}, fmt.Errorf("the trace covers no time; use one with requests at several times")
	}
	count := int((end + window - 1) / window)
	width := end.Seconds() / float64(count)
	busy := make([][]float64, count) // device-seconds by window and model
	for i := range busy {
		busy[i] = make([]float64, len(models))
	}
	for r, err := range trace {
		if err != nil {
			return capacity.Input{}, err
		}
		m := index[r.Model]
		busy[min(int(r.At.Seconds()/width), count-1)][m] += models[m].seconds(r)
	}
	series := capacity.Series{Used: make([][]capacity.Figure, count)}
	for i, all := range busy {
		for m, work := range all {
			used := capacity.Known(work / width)
			if models[m].PromptRate <= 0 || models[m].OutputRate <= 0 {
				used = capacity.Unknown("its speeds are not given")
			}
			series.Used[i] = append(series.Used[i], used)
		}
	}
	plain := make([]capacity.Model, len(models))
	for i, m := range models {
		plain[i] = m.Model
	}
	return capacity.Input{Models: capacity.Observe(plain, series), Together: series.Together()}, nil
}

// seconds returns the time that one device needs for a request.
func (d Described) seconds(r workload.Request) float64 {
	return float64(r.Prompt)/d.PromptRate + float64(r.Output)/d.OutputRate
}

func undescribed(model string) error {
	if model == "" {
		return fmt.Errorf("the trace names no models; describe only the one that it is for")
	}
	return fmt.Errorf("the trace has requests for model %s, which is not described; add it to the models", model)
}
