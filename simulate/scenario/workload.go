package scenario

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"troupe/workload"
)

// seedsPerLoad separates the seeds of the parts of a workload.
const seedsPerLoad = 1 << 32

// workload checks the workload. Requests gives its requests.
func (s *Scenario) workload(f *File) error {
	if len(f.Workload) == 0 {
		return f.wrong("workload", "is missing; add a trace, a preset, or a rate with prompt and output")
	}
	for i, l := range f.Workload {
		at := fmt.Sprintf("workload[%d]", i)
		if l.Deployment != "" &&
			!slices.ContainsFunc(f.Deployments, func(d Deployment) bool { return d.Name == l.Deployment }) {
			return f.wrong(at+".deployment", "%q is not under deployments", l.Deployment)
		}
		if l.Deployment == "" && l.Trace == "" && len(f.Deployments) > 1 {
			return f.wrong(at+".deployment", "is missing; write the one that the requests are for")
		}
		given := 0
		for _, is := range []bool{l.Trace != "", l.Preset != "", l.Rate != 0} {
			if is {
				given++
			}
		}
		if given != 1 {
			return f.wrong(at, "needs one of trace, preset and rate, and has %d of them", given)
		}
		if l.Speed < 0 || l.Speed > 1e6 {
			return f.wrong(at+".speed", "is %v; write a factor above 0", l.Speed)
		}
		if _, err := s.load(l, 0); err != nil {
			if bad := (*workload.Error)(nil); errors.As(err, &bad) && bad.File == "" {
				key, _, _ := strings.Cut(bad.Key, ",")
				return f.wrong(at+"."+strings.ReplaceAll(key, " ", "."), "%s; %s", bad.Problem, bad.Remedy)
			}
			return f.wrong(at, "%v", err)
		}
	}
	return nil
}

// Requests returns the requests of the scenario for a seed.
func (s *Scenario) Requests(seed uint64) (workload.Source, error) {
	var all []workload.Source
	for i, l := range s.file.Workload {
		source, err := s.load(l, seed+uint64(i)*seedsPerLoad)
		if err != nil {
			return nil, err
		}
		all = append(all, source)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return workload.Merge(all...), nil
}

// Generator returns the generator of the requests for a deployment. It reports false if there is none, or if its
// workload has other parts.
func (s *Scenario) Generator(deployment string) (load workload.Load, ok bool) {
	for _, l := range s.file.Workload {
		if l.Deployment == deployment {
			if ok || l.Rate == 0 {
				return workload.Load{}, false
			}
			load, ok = s.generator(l), true
		}
	}
	return load, ok
}

// load returns the requests of one part of the workload.
func (s *Scenario) load(l Load, seed uint64) (source workload.Source, err error) {
	speed := l.Speed
	if speed == 0 {
		speed = 1
	}
	switch {
	case l.Trace != "":
		path := l.Trace
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(s.file.path), path)
		}
		source, err = workload.Open(path, workload.Options{Model: l.Deployment})
	case l.Preset != "":
		presets := workload.Presets()
		at := slices.IndexFunc(presets, func(p workload.Preset) bool { return p.Name == l.Preset })
		if at < 0 {
			var names []string
			for _, p := range presets {
				names = append(names, p.Name)
			}
			return nil, fmt.Errorf("preset %q does not exist; there are %s", l.Preset, strings.Join(names, ", "))
		}
		source = presets[at].Load.Requests(seed)
	default:
		load := s.generator(l)
		if err := load.Check(); err != nil {
			return nil, err
		}
		source = load.Requests(seed)
	}
	if err != nil {
		return nil, err
	}
	if speed != 1 {
		source = workload.Scale(source, speed)
	}
	return named(source, l.Deployment), nil
}

// named gives all requests of a source the name of a deployment.
func named(source workload.Source, deployment string) workload.Source {
	if deployment == "" {
		return source
	}
	return func(yield func(workload.Request, error) bool) {
		for r, err := range source {
			r.Model = deployment
			if !yield(r, err) {
				return
			}
		}
	}
}

// generator returns the generator of requests.
func (s *Scenario) generator(l Load) workload.Load {
	load := workload.Load{Length: s.file.Duration.Duration, Rate: l.Rate, CV: l.CV,
		Diurnal: workload.Diurnal{Period: l.Diurnal.Period.Duration, Depth: l.Diurnal.Depth,
			Peak: l.Diurnal.Peak.Duration, Sharpness: l.Diurnal.Sharpness},
		Prompt: l.Prompt.distribution(), Output: l.Output.distribution(),
		Adapters: workload.Names{List: l.Adapters.List, Name: "adapter", Count: l.Adapters.Count,
			Zipf: l.Adapters.Zipf}}
	for _, spike := range l.Spikes {
		load.Spikes = append(load.Spikes, workload.Spike{At: spike.At.Duration, Length: spike.Length.Duration,
			Factor: spike.Factor})
	}
	if l.Conversation != nil {
		c := *l.Conversation
		load.Conversation = workload.Conversation{Turns: c.Turns, System: c.System, Open: c.Open, Block: c.Block}
	}
	return load
}

func (l Lengths) distribution() workload.Lengths {
	return workload.Lengths{Fixed: l.Fixed, Exponential: l.Exponential, Max: l.Max,
		Lognormal: workload.Lognormal{Median: l.Median, Sigma: l.Sigma}}
}
