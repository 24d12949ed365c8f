package scenario

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"troupe/core/cost"
	"troupe/simulate"
)

// deployments reads the deployments with their models.
func (s *Scenario) deployments(f *File) error {
	names := make(map[string]bool)
	for i, d := range f.Deployments {
		at := fmt.Sprintf("deployments[%d]", i)
		if d.Name == "" || names[d.Name] {
			return f.wrong(at+".name", "is missing or twice; give each deployment its own name")
		}
		names[d.Name] = true
		if d.Model == "" {
			d.Model = d.Name
		}
		model := slices.IndexFunc(f.Models, func(m Model) bool { return m.Name == d.Model })
		if model < 0 {
			return f.wrong(at+".model", "%q is not under models; add it there", d.Model)
		}
		out, err := s.deployment(f, at, d)
		if err != nil {
			return err
		}
		if err := s.addModel(f, &out, model, at, d); err != nil {
			return err
		}
		s.Config.Deployments = append(s.Config.Deployments, out)
	}
	if len(f.Deployments) == 0 {
		return f.wrong("deployments", "are missing; add one with a name and a model")
	}
	return nil
}

// deployment reads what a deployment says itself. The limits are those of models.deploy.
func (s *Scenario) deployment(f *File, at string, d Deployment) (simulate.Deployment, error) {
	out := simulate.Deployment{Name: d.Name, Devices: d.Devices, Wait: d.Wait, Weights: d.Model,
		SLO: simulate.SLO{TTFT: d.SLO.TTFT.Duration, TPOT: d.SLO.TPOT.Duration}}
	importance, known := priorities[d.Priority]
	if !known {
		return out, f.wrong(at+".priority", "is %q; use critical, high, standard or batch",
			d.Priority)
	}
	out.Class, out.Priority = importance.class, importance.priority
	if d.WakeWait != nil {
		out.WakeWait = d.WakeWait.Duration
	}
	least := 0
	if d.MinReplicas != nil {
		least = *d.MinReplicas
	}
	for _, n := range []struct {
		key              string
		given            *int
		to               *int
		byDefault, least int
		most             int
	}{
		{"replicas", d.Replicas, &out.Replicas, max(1, len(d.Devices), least), 0, 1000},
		{"max_sequences", d.MaxSequences, &out.MaxSequences, 64, 1, 4096},
		{"max_waiting", d.MaxWaiting, &out.MaxWaiting, 1024, 0, 1 << 20},
		{"step_tokens", d.StepTokens, &out.StepTokens, 512, 1, 1 << 17},
		{"block_tokens", d.BlockTokens, &out.BlockTokens, 16, 1, 1024},
		{"kv_blocks", d.KVBlocks, &out.KVBlocks, 0, 0, 1 << 30},
		{"tensor_parallel", d.TensorParallel, &out.Group, 1, 1, 64},
	} {
		if *n.to = n.byDefault; n.given != nil {
			*n.to = *n.given
		}
		if *n.to < n.least || *n.to > n.most {
			return out, f.wrong(at+"."+n.key, "is %d; write a number from %d to %d", *n.to, n.least, n.most)
		}
	}
	if err := f.bounds(at, d, &out); err != nil {
		return out, err
	}
	for i, name := range d.Devices {
		if !slices.ContainsFunc(s.Config.Devices, func(d simulate.Device) bool { return d.Node+"/"+d.Name == name }) {
			return out, f.wrong(fmt.Sprintf("%s.devices[%d]", at, i),
				"%q does not exist; devices are called NODE/gpu-0, NODE/gpu-1 and so on", name)
		}
	}
	if out.SLO.TTFT < 0 || out.SLO.TPOT < 0 {
		return out, f.wrong(at+".slo", "has a negative time; leave out what is not required")
	}
	return out, nil
}

// addModel adds the sizes of a model and of its adapters, and the times of its steps on each kind of device
// that it may use. The deployment is at path.
func (s *Scenario) addModel(f *File, d *simulate.Deployment, model int, path string, given Deployment) error {
	m, at := f.Models[model], fmt.Sprintf("models[%d]", model)
	facts, err := s.factsOf(f, at, m)
	if err != nil {
		return err
	}
	m.Facts = &facts
	if err := checkFacts(f, at+".facts", facts); err != nil {
		return err
	}
	group := int64(d.Group)
	d.WeightBytes, d.KVTokenBytes = (m.Facts.WeightBytes()+group-1)/group, (m.Facts.KVTokenBytes()+group-1)/group
	d.Layers = m.Facts.Layers
	d.ContextTokens = m.Facts.ContextTokens
	if d.Adapters, err = s.adapters(f, path, given, m); err != nil {
		return err
	}
	d.Times = make(map[string]simulate.StepTimer)
	for _, device := range s.Config.Devices {
		place := device.Node + "/" + device.Name
		if d.Times[device.Kind] != nil || len(d.Devices) > 0 && !slices.Contains(d.Devices, place) {
			continue
		}
		steps, err := f.stepsOn(at, m, device.Kind, d.Group)
		if err != nil {
			return err
		}
		d.Times[device.Kind] = steps
	}
	return nil
}

// factsOf returns the facts of a model. Weights and KV memory have 16 bits unless the facts say otherwise.
func (s *Scenario) factsOf(f *File, at string, m Model) (cost.Model, error) {
	var facts cost.Model
	switch {
	case m.Folder != "":
		path := m.Folder
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(f.path), path)
		}
		var err error
		if facts, err = s.facts(path); err != nil {
			return facts, f.wrong(at+".folder", "cannot be used: %v", err)
		}
		facts.WeightBits, facts.KVElementBytes = cmp.Or(facts.WeightBits, 16), cmp.Or(facts.KVElementBytes, 2)
	case m.Facts == nil:
		return facts, f.wrong(at+".facts", "are missing; write layers, hidden and so on, as in config.json of the "+
			"model, or its folder")
	}
	if m.Facts != nil {
		from, to := reflect.ValueOf(*m.Facts), reflect.ValueOf(&facts).Elem()
		for i := range from.NumField() {
			if !from.Field(i).IsZero() {
				to.Field(i).Set(from.Field(i))
			}
		}
	}
	facts.Name = cmp.Or(facts.Name, m.Name)
	return facts, nil
}

func checkFacts(f *File, at string, m cost.Model) error {
	for _, n := range []struct {
		key string
		is  int
	}{
		{"layers", m.Layers}, {"hidden", m.Hidden}, {"intermediate", m.Intermediate}, {"vocab", m.Vocab},
		{"heads", m.Heads}, {"kv_heads", m.KVHeads}, {"head_dim", m.HeadDim}, {"context_tokens", m.ContextTokens},
		{"weight_bits", m.WeightBits}, {"kv_element_bytes", m.KVElementBytes},
	} {
		if n.is <= 0 || n.is > 1<<30 {
			return f.wrong(at+"."+n.key, "is missing or not positive; it is a fact of the model")
		}
	}
	return nil
}

// stepsOn returns the costs of a model's steps on a kind of device: those in the scenario, else the
// measured ones in the profile of the device, if they are of this model, else those that its facts
// predict for a group of devices.
func (f *File) stepsOn(at string, m Model, kind string, group int) (simulate.StepTimer, error) {
	if steps, ok := m.Steps[kind]; ok {
		path := at + ".steps." + kind
		if steps.Form != cost.Sum && steps.Form != cost.Max {
			return nil, f.wrong(path+".form", "is %q; use %s or %s", steps.Form, cost.Sum, cost.Max)
		}
		for _, us := range []float64{steps.FixedUS, steps.PromptTokenUS, steps.DecodeSequenceUS, steps.PromptPairUS,
			steps.ContextTokenUS, steps.WeightsUS} {
			if !(us >= 0 && us < 1e12) {
				return nil, f.wrong(path, "have a cost of %v µs; write numbers from 0", us)
			}
		}
		return steps, nil
	}
	p, err := f.profile(kind)
	if err != nil {
		return nil, f.wrong(at+".steps", "do not have the kind %q of a device, and: %v", kind, err)
	}
	if p.Steps != nil && p.Model != nil && p.Model.Shape() == m.Facts.Shape() && group == 1 {
		return p.Steps.Steps, nil
	}
	predicted, err := p.Device.Predict(*m.Facts, group, f.Efficiency)
	if err != nil {
		return nil, f.wrong("efficiency", "or the device %s: %v", kind, err)
	}
	return predicted.Steps.Steps, nil
}
