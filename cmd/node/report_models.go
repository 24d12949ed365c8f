package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml"

	"troupe/core/capacity"
	"troupe/core/units"
	"troupe/observe/report"
)

// modelsFile is the file of troupe report --models.
type modelsFile struct {
	Models []describedModel `yaml:"models"`
}

// describedModel is a model of a report. A nil field is unknown.
type describedModel struct {
	Name       string   `yaml:"name"`
	Bytes      string   `yaml:"bytes"`
	MinDevices *uint32  `yaml:"min_devices"`
	Devices    *uint32  `yaml:"devices"`
	Peak       *float64 `yaml:"peak"`
	Average    *float64 `yaml:"average"`
	PromptRate *float64 `yaml:"prompt_rate"`
	OutputRate *float64 `yaml:"output_rate"`
}

// readModels reads the models of a report, of a trace or of the shares in the file.
func readModels(path string, trace bool) ([]report.Described, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--models: %w", err)
	}
	var f modelsFile
	err = yaml.NewDecoder(bytes.NewReader(source), yaml.Strict()).Decode(&f)
	if err != nil && !errors.Is(err, io.EOF) { // an empty file has no models
		return nil, fmt.Errorf("--models %s: %w", path, describeYAMLError(err))
	}
	if len(f.Models) == 0 {
		return nil, fmt.Errorf("--models %s: there are no models; add a list with the key models", path)
	}
	named := make(map[string]bool)
	all := make([]report.Described, len(f.Models))
	for i, m := range f.Models {
		if key, problem := m.wrong(named, trace); problem != "" {
			field := fmt.Sprintf("$.models[%d].%s", i, key)
			return nil, file{source: source}.errorAtField("--models "+path, field, problem)
		}
		named[m.Name] = true
		all[i] = m.described()
	}
	return all, nil
}

// wrong returns an invalid key of a model, and why it is.
func (m describedModel) wrong(named map[string]bool, trace bool) (key, problem string) {
	share := func(v *float64) bool { return v != nil && !(*v >= 0 && *v <= 1) }
	rate := func(v *float64) bool { return v != nil && !(*v > 0) }
	_, err := units.ParseBytes(m.Bytes)
	switch {
	case m.Name == "":
		return "name", "a model has no name; add name"
	case named[m.Name]:
		return "name", fmt.Sprintf("two models are %s; give each its own name", m.Name)
	case m.Bytes != "" && err != nil:
		return "bytes", err.Error()
	case share(m.Peak):
		return "peak", "peak must be a share from 0 to 1, such as 0.85"
	case share(m.Average):
		return "average", "average must be a share from 0 to 1, such as 0.35"
	case m.Peak != nil && m.Average != nil && *m.Peak < *m.Average:
		return "peak", "peak must not be below average"
	case rate(m.PromptRate):
		return "prompt_rate", "prompt_rate must be a number of tokens a second above 0"
	case rate(m.OutputRate):
		return "output_rate", "output_rate must be a number of tokens a second above 0"
	case trace && m.Peak != nil:
		return "peak", "peak follows from the trace; remove it, or --trace"
	case trace && m.Average != nil:
		return "average", "average follows from the trace; remove it, or --trace"
	}
	return "", ""
}

// described returns the model with unknown figures where the file has none.
func (m describedModel) described() report.Described {
	d := report.Described{Model: capacity.Model{
		Name: m.Name, Bytes: capacity.Unknown("not given"),
		MinDevices: orUnknown(m.MinDevices), Devices: orUnknown(m.Devices),
		Peak: orUnknown(m.Peak), Average: orUnknown(m.Average),
	}}
	if n, err := units.ParseBytes(m.Bytes); err == nil {
		d.Bytes = capacity.Known(float64(n))
	}
	if m.PromptRate != nil {
		d.PromptRate = *m.PromptRate
	}
	if m.OutputRate != nil {
		d.OutputRate = *m.OutputRate
	}
	return d
}

func orUnknown[T uint32 | float64](v *T) capacity.Figure {
	if v == nil {
		return capacity.Unknown("not given")
	}
	return capacity.Known(float64(*v))
}
