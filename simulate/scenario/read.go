package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/goccy/go-yaml"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/core/units"
	"troupe/internal/costfile"
	"troupe/simulate"
)

// Scenario is a scenario that can be simulated, any number of times.
type Scenario struct {
	Config simulate.Config
	file   *File
	facts  FactsOf
	set    []simulate.Setting
}

// FactsOf returns the facts of the model in a folder. WeightBits and KVElementBytes may be 0.
type FactsOf func(folder string) (cost.Model, error)

// Read reads a scenario, changes some of its keys and checks all of it, except for the lines of traces.
func Read(path string, facts FactsOf, set ...simulate.Setting) (*Scenario, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return Parse(path, source, facts, set...)
}

// ReadCluster is like Read, but the requests come from elsewhere: the scenario needs no workload, and one that it has
// is not used.
func ReadCluster(path string, facts FactsOf, set ...simulate.Setting) (*Scenario, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return parse(path, source, facts, set, false)
}

// Parse parses a scenario. Paths in it are relative to the folder of path.
func Parse(path string, source []byte, facts FactsOf, set ...simulate.Setting) (*Scenario, error) {
	return parse(path, source, facts, set, true)
}

func parse(path string, source []byte, facts FactsOf, set []simulate.Setting, workload bool) (*Scenario, error) {
	f := &File{path: path, source: source}
	err := yaml.NewDecoder(bytes.NewReader(source), yaml.Strict()).Decode(f)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty; docs/howto/simulate.md has an example", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, describe(err))
	}
	for _, setting := range set {
		if err := f.set(setting); err != nil {
			return nil, err
		}
	}
	if err := f.checkValues(reflect.ValueOf(f), ""); err != nil {
		return nil, err
	}
	s := &Scenario{file: f, facts: facts}
	parts := []func(*File) error{s.base, s.devices, s.deployments, s.faults, s.commands}
	if workload {
		parts = append(parts, s.workload)
	} else if f.Duration.Duration == 0 {
		f.Duration.Duration = time.Hour // is not used
	}
	for _, part := range parts {
		if err := part(f); err != nil {
			return nil, err
		}
	}
	if err := s.Config.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.set = set
	return s, nil
}

// base checks what belongs to no section.
func (s *Scenario) base(f *File) error {
	for _, key := range []struct {
		name string
		is   any
	}{
		{"links", f.Links},
	} {
		if key.is != nil {
			return f.wrong(key.name, "are not simulated yet; remove this section")
		}
	}
	if f.Duration.Duration <= 0 {
		return f.wrong("duration", "is missing or not positive; write the time to simulate, such as 24h")
	}
	reserve := hbm.DefaultKVReserve
	if f.KVReserve != nil {
		reserve = *f.KVReserve
	}
	if !(reserve >= 0 && reserve < 1) {
		return f.wrong("kv_reserve", "is %v; write a share from 0 to below 1", reserve)
	}
	if f.Name == "" {
		f.Name = filepath.Base(f.path)
	}
	if f.Efficiency == (cost.Efficiency{}) {
		f.Efficiency = cost.Peak
	}
	s.Config = simulate.Config{Name: f.Name, Seed: f.Seed, Duration: f.Duration.Duration, KVReserve: reserve}
	return s.policies(f)
}

// devices reads the nodes.
func (s *Scenario) devices(f *File) error {
	nodes := make(map[string]bool)
	for i, n := range f.Nodes {
		at := fmt.Sprintf("nodes[%d]", i)
		if n.Name == "" || nodes[n.Name] {
			return f.wrong(at+".name", "is missing or twice; give each node its own name")
		}
		nodes[n.Name] = true
		node, err := f.node(at, n)
		if err != nil {
			return err
		}
		number := 0
		for j, d := range n.Devices {
			at := fmt.Sprintf("%s.devices[%d]", at, j)
			memory, err := f.memoryOf(at, d)
			if err != nil {
				return err
			}
			up, err := f.hostLink(at, d)
			if err != nil {
				return err
			}
			if d.Count < 0 || d.Count > 1<<16 {
				return f.wrong(at+".count", "is %d; write how many equal devices the node has", d.Count)
			}
			costs := f.costsOf(d, &node)
			for range max(1, d.Count) {
				s.Config.Devices = append(s.Config.Devices, simulate.Device{Node: n.Name,
					Name: fmt.Sprint("gpu-", number), Kind: d.Kind, Memory: memory, Costs: costs,
					Up: up, Down: up})
				number++
			}
		}
		s.Config.Nodes = append(s.Config.Nodes, node)
	}
	if len(s.Config.Devices) == 0 {
		return f.wrong("nodes", "have no devices; add a node with devices: [{kind: h100, count: 4}]")
	}
	return nil
}

// memoryOf returns the memory of a device: what the scenario says, or what its profile does.
func (f *File) memoryOf(at string, d Device) (int64, error) {
	if d.Kind == "" {
		return 0, f.wrong(at+".kind", "is missing; write the name of a profile, such as h100, or any name and the "+
			"memory")
	}
	if d.Memory != "" {
		memory, err := units.ParseBytes(d.Memory)
		if err != nil || memory == 0 {
			return 0, f.wrong(at+".memory", "is %q; write a size such as 80GB", d.Memory)
		}
		return memory, nil
	}
	p, err := f.profile(d.Kind)
	if err != nil || p.Device.MemoryBytes == nil {
		return 0, f.wrong(at+".memory", "is missing, and there is no profile of %q that has it; write a size such "+
			"as 80GB", d.Kind)
	}
	return int64(p.Device.MemoryBytes.Value), nil
}

// profile reads the profile of a kind of device.
func (f *File) profile(kind string) (cost.Profile, error) {
	if isFile(kind) && !filepath.IsAbs(kind) {
		kind = filepath.Join(filepath.Dir(f.path), kind)
	}
	return costfile.Read(kind)
}

// importance is a priority of a deployment, and the class of its requests.
type importance struct {
	class    batch.Class
	priority schedule.Priority
}

// priorities has the words for priorities of deployments, and for classes of requests.
var priorities = map[string]importance{
	"":            {batch.Standard, schedule.Standard},
	"critical":    {batch.Interactive, schedule.Critical},
	"high":        {batch.Interactive, schedule.High},
	"standard":    {batch.Standard, schedule.Standard},
	"batch":       {batch.Batch, schedule.Batch},
	"interactive": {batch.Interactive, schedule.Standard},
}
