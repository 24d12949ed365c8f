package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

// file is a configuration file. Its paths are relative to its folder.
type file struct {
	Options     `yaml:",inline"`
	Deployments []Deployment `yaml:"deployments" validate:"unique=Name"`
	Adapters    []Adapter    `yaml:"adapters"`

	source []byte
}

// Adapter has the fields of messages.AdapterSpec that an operator sets. The files of the adapter are
// checked against the model when the node starts.
type Adapter struct {
	Name    string `yaml:"name" validate:"required"`
	Model   string `yaml:"model" validate:"required,deployment"`
	Path    string `yaml:"path" validate:"required,adapter"`
	Pinned  bool   `yaml:"pinned"`
	AnyBase bool   `yaml:"any_base"`
}

// Deployment has the fields of messages.DeploymentSpec that an operator sets, with the limits of
// control.Normalize. A nil field has its default.
type Deployment struct {
	Name         string   `yaml:"name" validate:"required,deployment"`
	Path         string   `yaml:"path" validate:"required,model"`
	Replicas     *uint32  `yaml:"replicas" validate:"omitempty,max=1000"`
	MinReplicas  *uint32  `yaml:"min_replicas" validate:"omitempty,max=1000"`
	MaxReplicas  *uint32  `yaml:"max_replicas" validate:"omitempty,max=1000"`
	IdleAfter    *seconds `yaml:"idle_after" validate:"omitempty,max=2592000"`
	WakeWait     *seconds `yaml:"wake_wait" validate:"omitempty,max=86400"`
	Priority     string   `yaml:"priority" validate:"omitempty,oneof=critical high standard batch interactive"`
	MaxSequences *uint32  `yaml:"max_sequences" validate:"omitempty,max=4096"`
	MaxWaiting   *uint32  `yaml:"max_waiting" validate:"omitempty,max=1048576"`
	StepTokens   *uint32  `yaml:"step_tokens" validate:"omitempty,max=131072"`
	BlockTokens  *uint32  `yaml:"block_tokens" validate:"omitempty,max=1024"`
	KVBlocks     *uint32  `yaml:"kv_blocks" validate:"omitempty,max=1073741824"`
	AdapterPages *uint32  `yaml:"adapter_pages" validate:"omitempty,max=1048576"`
	MaxAdapters  *uint32  `yaml:"max_adapters" validate:"omitempty,max=4096"`
	MaxRank      *uint32  `yaml:"max_adapter_rank" validate:"omitempty,max=256"`
	Class        string   `yaml:"default_class" validate:"omitempty,oneof=batch standard interactive"`
	Parallel     *uint32  `yaml:"tensor_parallel"`
	Pinned       *bool    `yaml:"pinned"`
	SLO          *SLO     `yaml:"slo"`
	Engine       *Engine  `yaml:"engine"`
}

// SLO has the fields of messages.Slo, as durations such as 200ms.
type SLO struct {
	TTFT string `yaml:"ttft" validate:"omitempty,duration"`
	TPOT string `yaml:"tpot" validate:"omitempty,duration"`
}

// message returns the SLO as a message.
func (s SLO) message() *messages.Slo {
	times := &messages.Slo{}
	for _, f := range []struct {
		text string
		into **durationpb.Duration
	}{{s.TTFT, &times.Ttft}, {s.TPOT, &times.Tpot}} {
		if d, err := time.ParseDuration(f.text); err == nil { // it is validated; empty: absent
			*f.into = durationpb.New(d)
		}
	}
	return times
}

// Engine has the fields of messages.EngineSpec.
type Engine struct {
	Kind    string   `yaml:"kind"`
	Without []string `yaml:"without"`
}

// readFile reads and validates a file. An empty path is an empty file.
func readFile(path string) (file, error) {
	if path == "" {
		return file{}, nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return file{}, fmt.Errorf("--config (or TROUPE_CONFIG): %w", err)
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return file{}, fmt.Errorf("--config %s: %w", path, err)
	}
	f := file{source: source}
	err = yaml.NewDecoder(bytes.NewReader(source), yaml.Strict(), yaml.Validator(newChecker(base))).Decode(&f)
	if err != nil && !errors.Is(err, io.EOF) { // an empty file is valid
		return file{}, fmt.Errorf("%s: %w", path, describeYAMLError(err))
	}
	if err := f.checkFractions(path); err != nil {
		return file{}, err
	}
	f.absolutePaths(base)
	f.ModelRoots = absoluteList(base, f.ModelRoots)
	for i := range f.Deployments {
		f.Deployments[i].Path = absolute(base, f.Deployments[i].Path)
	}
	for i := range f.Adapters {
		f.Adapters[i].Path = absolute(base, f.Adapters[i].Path)
	}
	return f, nil
}

// specs returns the deployments as messages.
func (f file) specs() []*messages.DeploymentSpec {
	specs := make([]*messages.DeploymentSpec, len(f.Deployments))
	for i, d := range f.Deployments {
		specs[i] = &messages.DeploymentSpec{
			Name: d.Name, Path: d.Path, Replicas: d.Replicas, MinReplicas: d.MinReplicas, MaxReplicas: d.MaxReplicas,
			IdleAfter:    (*uint32)(d.IdleAfter),
			WakeWait:     (*uint32)(d.WakeWait),
			MaxSequences: d.MaxSequences, MaxWaiting: d.MaxWaiting, StepTokens: d.StepTokens,
			BlockTokens: d.BlockTokens, KvBlocks: d.KVBlocks,
			AdapterPages: d.AdapterPages, MaxAdapters: d.MaxAdapters, MaxAdapterRank: d.MaxRank,
			TensorParallel: d.Parallel, Pinned: d.Pinned,
		}
		if d.Engine != nil {
			specs[i].Engine = &messages.EngineSpec{Kind: d.Engine.Kind, Without: d.Engine.Without}
		}
		if d.SLO != nil {
			specs[i].Slo = d.SLO.message()
		}
		if class, ok := messages.PriorityClassByName(d.Class); ok {
			specs[i].DefaultClass = class.Enum()
		}
		if priority, ok := messages.PriorityByName(d.Priority); ok {
			specs[i].Priority = priority.Enum()
		}
	}
	return specs
}

// byClass returns the deployments whose priority is the class interactive, as earlier versions had it.
func (f file) byClass() (names []string) {
	for _, d := range f.Deployments {
		if d.Priority == "interactive" {
			names = append(names, d.Name)
		}
	}
	return names
}

// adapters returns the adapters as messages.
func (f file) adapters() []*messages.RegisterAdapterRequest {
	all := make([]*messages.RegisterAdapterRequest, len(f.Adapters))
	for i, a := range f.Adapters {
		all[i] = &messages.RegisterAdapterRequest{
			Adapter: &messages.AdapterSpec{
				Name:   a.Name,
				Model:  a.Model,
				Path:   a.Path,
				Pinned: a.Pinned,
			}, AnyBase: a.AnyBase,
		}
	}
	return all
}

// absolute resolves a relative path against base.
func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}
