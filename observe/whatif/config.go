package whatif

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/actors/planner"
	"troupe/core/backend"
	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/schedule"
	"troupe/messages"
	"troupe/simulate"
	"troupe/workload"
)

// Options are what is simulated, and how.
type Options struct {
	For      time.Duration
	Seed     uint64
	Set      []string       // "chat.max_replicas=8"
	Demand   []string       // "chat=2x"
	Profiles []cost.Profile // the first one of a model and a kind of device counts
}

// build is a configuration that is being built.
type build struct {
	Options
	cluster Cluster
	cfg     simulate.Config
	kinds   map[string]backend.Kind // of the engines, by device
	assumed []string
}

func (b *build) assume(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.assumed, text) {
		b.assumed = append(b.assumed, text)
	}
}

// config returns what is simulated.
func (c Cluster) config(o Options) (*build, workload.Source, error) {
	rates := make(map[string]float64)
	for _, m := range c.Models {
		if err := checkDemand(m); err != nil {
			return nil, nil, err
		}
		rates[m.GetSpec().GetName()] = m.GetDemand().GetArrivalsPerSecond()
	}
	c.Models = slices.Clone(c.Models)
	for i, m := range c.Models {
		c.Models[i] = &messages.DeploymentStatus{Spec: m.GetSpec(), Replicas: m.GetReplicas(), Demand: m.GetDemand()}
	}
	for _, text := range o.Set {
		if err := c.change(text); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range c.Models {
		if _, least, most := m.GetSpec().Bounds(); least > most {
			return nil, nil, fmt.Errorf("--set: min_replicas %d of %s is more than max_replicas %d; set both", least,
				m.GetSpec().GetName(), most)
		}
	}
	for _, text := range o.Demand {
		if err := c.demand(text, rates); err != nil {
			return nil, nil, err
		}
	}
	b := &build{Options: o, cluster: c, kinds: make(map[string]backend.Kind)}
	b.cfg = simulate.Config{Name: "what-if", Seed: o.Seed, Duration: o.For, Unplaced: true}
	b.addDevices()
	var sources []workload.Source
	for i, m := range c.Models {
		used, err := b.addDeployment(m)
		if err != nil {
			return nil, nil, err
		}
		if used {
			if s := b.requests(m, rates[m.GetSpec().GetName()], o.Seed+uint64(i)); s != nil {
				sources = append(sources, s)
			}
		}
	}
	b.assume("requests arrive at random at the given mean rate, with the lengths of the last minute; their prompts " +
		"share nothing")
	return b, workload.Merge(sources...), nil
}

// checkDemand returns an error about the first figure of a deployment's demand that cannot be.
func checkDemand(m *messages.DeploymentStatus) error {
	d := m.GetDemand()
	prompt, output := d.GetPromptTokens(), d.GetOutputTokens()
	for _, f := range []struct {
		name string
		is   float64
	}{
		{"arrivals_per_second", d.GetArrivalsPerSecond()},
		{"prompt_tokens.mean", prompt.GetMean()}, {"prompt_tokens.p50", prompt.GetP50()},
		{"prompt_tokens.p90", prompt.GetP90()}, {"prompt_tokens.p99", prompt.GetP99()},
		{"output_tokens.mean", output.GetMean()}, {"output_tokens.p50", output.GetP50()},
		{"output_tokens.p90", output.GetP90()}, {"output_tokens.p99", output.GetP99()},
	} {
		if !(f.is >= 0 && f.is <= mostDemand) {
			return fmt.Errorf("the demand of %s has %s %v, which cannot be; repeat the command in a minute",
				m.GetSpec().GetName(), f.name, f.is)
		}
	}
	return nil
}

// addDevices adds the devices that take replicas.
func (b *build) addDevices() {
	for _, n := range b.cluster.Nodes {
		name := n.GetMember().GetName()
		if n.GetUnreachable() != "" {
			b.assume("node %s, which does not answer, is not there", name)
			continue
		}
		for _, g := range n.GetGpus() {
			if g.GetState() == messages.GpuState_GPU_STATE_QUARANTINED {
				b.assume("%s/%s, which is quarantined, is not there", name, g.GetName())
				continue
			}
			d := simulate.Device{Node: name, Name: g.GetName(), Kind: g.GetProduct(), Memory: int64(g.GetMemoryBytes())}
			if len(b.cfg.Devices) == 0 && d.Memory > 0 {
				b.cfg.KVReserve = float64(g.GetBudget().GetKvReserve()) / float64(d.Memory)
			}
			b.cfg.Devices = append(b.cfg.Devices, d)
			b.kinds[name+"/"+g.GetName()] = backend.Kind(g.GetEngine()).OrNative()
		}
	}
}

// addDeployment adds a deployment, unless an operator has stopped or parked it.
func (b *build) addDeployment(m *messages.DeploymentStatus) (used bool, err error) {
	s, size := m.GetSpec(), b.cluster.Sizes[m.GetSpec().GetName()]
	replicas, least, most := s.Bounds()
	switch {
	case most == 0, schedule.RestOf(replicas, least, most) == schedule.Stopped, s.Parks(),
		s.GetLevel() == messages.Level_LEVEL_STANDBY:
		b.assume("%s, which an operator has stopped, parked or put on standby, is not there", s.GetName())
		return false, nil
	case size == nil:
		return false, fmt.Errorf("the sizes of model %s are unknown: no node has its folder %s", s.GetName(),
			s.GetPath())
	}
	slo := planner.SLOOf(s)
	d := simulate.Deployment{
		Name: s.GetName(), WeightBytes: int64(size.GetWeightBytes()), KVTokenBytes: int64(size.GetKvTokenBytes()),
		ContextTokens: int(size.GetContextTokens()), Times: make(map[string]simulate.StepTimer),
		Replicas: replicas, MinReplicas: least, MaxReplicas: most,
		IdleAfter: time.Duration(s.GetIdleAfter()) * time.Second, Class: classOf(s.RequestClass()),
		Priority: planner.PriorityOf(s.GetPriority()), MaxSequences: int(s.GetMaxSequences()),
		MaxWaiting: int(s.GetMaxWaiting()), StepTokens: int(s.GetStepTokens()), BlockTokens: int(s.GetBlockTokens()),
		KVBlocks: int(s.GetKvBlocks()), Rate: m.GetDemand().GetArrivalsPerSecond(),
		SLO: simulate.SLO{TTFT: slo.TTFT, TPOT: slo.TPOT},
	}
	if s.Held() || len(s.GetPreemptions()) > 0 {
		d.Replicas = int(s.Wanted())
		d.MinReplicas, d.MaxReplicas = d.Replicas, max(1, d.Replicas)
		b.assume("%s, which an operator holds, keeps %d replicas", s.GetName(), d.Replicas)
	}
	if err := b.addCosts(&d, s, size); err != nil {
		return false, err
	}
	for _, r := range m.GetReplicas() {
		at := r.GetNode() + "/" + r.GetGpu()
		if slices.Contains(d.Devices, at) && len(d.Places) < d.Replicas {
			d.Places = append(d.Places, simulate.Place{Replica: r.GetName(), Device: at})
		}
	}
	b.cfg.Deployments = append(b.cfg.Deployments, d)
	return true, nil
}

// addCosts adds the devices on which replicas of a deployment may be, with the costs of its steps.
func (b *build) addCosts(d *simulate.Deployment, s *messages.DeploymentSpec, size *messages.ModelSizes) error {
	var lacking []string
	for i := range b.cfg.Devices {
		on := &b.cfg.Devices[i]
		if name := on.Node + "/" + on.Name; b.kinds[name] == backend.Kind(s.GetEngine().GetKind()).OrNative() {
			steps, profile, assumed, known := b.costsOn(on.Kind, s, size)
			if !known {
				if !slices.Contains(lacking, on.Kind) {
					lacking = append(lacking, on.Kind)
				}
				continue
			}
			if assumed != "" {
				b.assume("%s", assumed)
			}
			if on.Costs == (simulate.DeviceCosts{}) {
				on.Costs, _, _ = simulate.CostsOf(profile)
			}
			d.Times[on.Kind], d.Devices = steps, append(d.Devices, name)
		}
	}
	if len(d.Devices) == 0 {
		return noCosts(s, lacking)
	}
	if len(lacking) > 0 {
		b.assume("%s does not use %s, on which its costs are unknown", s.GetName(), strings.Join(lacking, ", "))
	}
	return nil
}

// mostDemand is the largest figure of a demand that can be.
const mostDemand = 1e9

// Lengths of prompts and outputs of a model that has had no requests.
const (
	unknownPrompt = 512
	unknownOutput = 128
)

// requests returns requests for a model, or nil if there are none.
func (b *build) requests(m *messages.DeploymentStatus, rate float64, seed uint64) workload.Source {
	name := m.GetSpec().GetName()
	if rate <= 0 {
		b.assume("%s gets no requests; it had none in the last minute, or was given a rate of 0", name)
		return nil
	}
	prompt, known := lengthsOf(m.GetDemand().GetPromptTokens(), unknownPrompt)
	output, _ := lengthsOf(m.GetDemand().GetOutputTokens(), unknownOutput)
	if !known {
		b.assume("prompts of %s have %d tokens and outputs %d, since those of its requests are unknown", name,
			unknownPrompt, unknownOutput)
	}
	b.assume("%s gets %.3g requests/s", name, rate)
	return workload.Load{Length: b.For, Rate: rate, Models: workload.Names{List: []string{name}}, Prompt: prompt,
		Output: output}.Requests(seed)
}

// lengthsOf returns the distribution with some quantiles.
func lengthsOf(q *messages.Quantiles, otherwise int) (workload.Lengths, bool) {
	if q.GetCount() == 0 {
		return workload.Lengths{Fixed: otherwise}, false
	}
	least := max(1, min(q.GetP50(), 2*q.GetMean()-q.GetP50()))
	all := []workload.Quantile{{Share: 0, Tokens: min(least, q.GetP50()/2)}, {Share: 0.5, Tokens: q.GetP50()},
		{Share: 0.9, Tokens: q.GetP90()}, {Share: 1, Tokens: q.GetP99()}}
	for i := range all {
		all[i].Tokens = max(1, all[i].Tokens, all[max(0, i-1)].Tokens)
	}
	return workload.Lengths{Quantiles: all}, true
}

func classOf(c messages.PriorityClass) batch.Class {
	switch c {
	case messages.PriorityClass_PRIORITY_CLASS_BATCH:
		return batch.Batch
	case messages.PriorityClass_PRIORITY_CLASS_INTERACTIVE:
		return batch.Interactive
	}
	return batch.Standard
}
