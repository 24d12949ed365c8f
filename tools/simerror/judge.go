package main

import (
	"fmt"

	"troupe/core/cost"
	"troupe/recording"
	"troupe/simulate"
	"troupe/simulate/recorded"
	"troupe/workload"
)

// judged is a recorded workload with its simulations.
type judged struct {
	recording          *recording.Recording
	different          int               // decisions
	calibrated, fitted []recorded.Metric // with the costs as calibrated, and with those that were fitted to workload A
	sharing            float64           // factor of the costs, because devices share cores
}

// judge fits the costs to workload A, and simulates both workloads with and without the fit.
//
// The fit has two figures: a factor for the time of steps, so that the simulated TPOT P50 of A is the recorded one,
// and a time that each request takes outside of steps, which is the rest of the TTFT P50 of A.
func (m *measurement) judge() error {
	for _, w := range []*judged{&m.a, &m.b} {
		result, sharing, err := m.simulate(w, 1)
		if err != nil {
			return err
		}
		w.sharing, w.calibrated = sharing, recorded.Compare(w.recording, result)
	}
	factor, err := m.fitFactor()
	if err != nil {
		return err
	}
	m.factor = factor
	for _, w := range []*judged{&m.a, &m.b} {
		result, _, err := m.simulate(w, factor)
		if err != nil {
			return err
		}
		if w == &m.a {
			m.outside = gap(recorded.Compare(w.recording, result), recorded.TTFTP50)
		}
		for i := range result.Models {
			for _, ttft := range []*float64{result.Models[i].TTFTP50, result.Models[i].TTFTP99} {
				if ttft != nil {
					*ttft += m.outside
				}
			}
		}
		w.fitted = recorded.Compare(w.recording, result)
	}
	return nil
}

// fitFactor returns the factor for the costs with which the simulated TPOT P50 of workload A is the recorded one.
func (m *measurement) fitFactor() (float64, error) {
	low, high := 0.1, 10.0
	for range 30 {
		middle := (low + high) / 2
		result, _, err := m.simulate(&m.a, middle)
		if err != nil {
			return 0, err
		}
		if gap(recorded.Compare(m.a.recording, result), recorded.TPOTP50) > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2, nil
}

// gap returns by how much a recorded figure is above the simulated one.
func gap(all []recorded.Metric, name string) float64 {
	for _, m := range all {
		if m.Name == name && m.Recorded != nil && m.Simulated != nil {
			return *m.Recorded - *m.Simulated
		}
	}
	return 0
}

// simulate simulates a workload with a factor for the costs. Where two devices serve, each is busy beside the other
// for a share of the time. The costs are raised by that share of what they were higher beside another device.
func (m *measurement) simulate(w *judged, factor float64) (result simulate.Result, sharing float64, err error) {
	requests, refused := w.recording.Workload()
	if refused > 0 {
		return result, 0, fmt.Errorf("%d requests were refused", refused)
	}
	sharing = 1
	for range 6 {
		p := m.alone
		steps := *p.Steps
		steps.Steps = scaled(steps.Steps, factor*sharing)
		p.Steps = &steps
		cfg, err := recorded.Config(w.recording, "simerror", []cost.Profile{p})
		if err != nil {
			return result, 0, err
		}
		if result, err = simulate.Run(cfg, workload.Of(requests)); err != nil {
			return result, 0, err
		}
		if d := cfg.Deployments[0]; d.Replicas > 1 {
			sharing = 1 + (m.slowdown()-1)*result.Models[0].Busy
		}
	}
	return result, sharing, nil
}

// slowdown returns by what factor a step that decodes one token took longer beside another busy device.
func (m *measurement) slowdown() float64 {
	one := cost.Step{}.AddDecode(200)
	return max(1, m.beside.Steps.Time(one).Seconds()/m.alone.Steps.Time(one).Seconds())
}

func scaled(s cost.Steps, by float64) cost.Steps {
	for _, us := range []*float64{&s.FixedUS, &s.PromptTokenUS, &s.DecodeSequenceUS, &s.PromptPairUS,
		&s.ContextTokenUS, &s.WeightsUS} {
		*us *= by
	}
	return s
}
