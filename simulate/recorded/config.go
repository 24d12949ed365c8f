package recorded

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/internal/costfile"
	"troupe/recording"
	"troupe/simulate"
)

var classes = map[string]batch.Class{"batch": batch.Batch, "standard": batch.Standard, "interactive": batch.Interactive}

// Profiles returns the costs in a recording.
func Profiles(r *recording.Recording) (all []cost.Profile, err error) {
	for i, text := range r.Snapshot.Profiles {
		p, err := costfile.Parse(fmt.Sprintf("%d of the recording", i+1), []byte(text))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Config returns the configuration that simulates what was recorded: the devices and deployments of the snapshot,
// with the replicas that served then at their places. The first profile of a model and a kind of device has its costs.
func Config(r *recording.Recording, name string, profiles []cost.Profile) (simulate.Config, error) {
	cfg := simulate.Config{Name: name, Duration: recording.Duration(r.End.At), KVReserve: hbm.DefaultKVReserve}
	for i, n := range r.Snapshot.Nodes {
		if tiers := tiersOf(n); tiers != (simulate.Tiers{}) {
			cfg.Nodes = append(cfg.Nodes, simulate.Node{Name: n.Name, Tiers: tiers})
		}
		for j, d := range n.Devices {
			if i+j == 0 {
				cfg.KVReserve = d.KVReserve
			}
			up, down := linkOf(d.Kind, profiles)
			cfg.Devices = append(cfg.Devices, simulate.Device{Node: n.Name, Name: d.Name, Kind: d.Kind,
				Memory: d.MemoryBytes, Up: up, Down: down})
		}
	}
	for _, d := range r.Snapshot.Deployments {
		replicas := serving(r, d.Name)
		if len(replicas) == 0 {
			continue // requests for it are an error of the simulation
		}
		of, err := deployment(r, d, replicas, profiles)
		if err != nil {
			return cfg, err
		}
		cfg.Deployments = append(cfg.Deployments, of)
	}
	return cfg, cfg.Check()
}

// tiersOf returns the KV tiers of a node.
func tiersOf(n recording.Node) (out simulate.Tiers) {
	for _, t := range n.Tiers {
		switch t.Name {
		case "dram":
			out.DRAM, out.Policy, out.Watermark = t.Bytes, t.Policy, t.Watermark
		case "nvme":
			out.NVMe, out.Policy, out.Watermark = t.Bytes, t.Policy, t.Watermark
		case "remote":
			out.Remote = t.Bytes
		}
	}
	return out
}

// linkOf returns the link between a kind of device and host memory, as far as a profile has it. Without it, copies take
// no time.
func linkOf(kind string, profiles []cost.Profile) (up, down simulate.Link) {
	i := slices.IndexFunc(profiles, func(p cost.Profile) bool { return p.Device.Name == kind })
	if i < 0 {
		return up, down
	}
	if t := profiles[i].Copies.HostToDevice; t != nil {
		up.BytesPerSecond = t.BytesPerSecond
	}
	if t := profiles[i].Copies.DeviceToHost; t != nil {
		down.BytesPerSecond = t.BytesPerSecond
	}
	return up, down
}

// serving returns the replicas of a model that served at the beginning, by number.
func serving(r *recording.Recording, model string) (all []recording.Replica) {
	for _, p := range r.Snapshot.Replicas {
		if p.Model == model && p.State == "serving" && p.KVBlockBytes > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b recording.Replica) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return all
}

func deployment(r *recording.Recording, d recording.Deployment, replicas []recording.Replica,
	profiles []cost.Profile) (simulate.Deployment, error) {
	out := simulate.Deployment{
		Name: d.Name, WeightBytes: d.WeightBytes, ContextTokens: d.ContextTokens, Replicas: len(replicas),
		Class: classes[d.Class], Priority: schedule.Standard,
		MaxSequences: d.MaxSequences, MaxWaiting: d.MaxWaiting, StepTokens: d.StepTokens,
		BlockTokens: d.BlockTokens, KVBlocks: d.KVBlocks, Times: make(map[string]simulate.StepTimer),
	}
	if min(d.ContextTokens, d.BlockTokens, d.MaxSequences, d.StepTokens) == 0 {
		return out, fmt.Errorf("the recording lacks the sizes of deployment %s; record again while a node has its "+
			"folder", d.Name)
	}
	out.KVTokenBytes = replicas[0].KVBlockBytes / int64(d.BlockTokens)
	same := !slices.ContainsFunc(replicas, func(p recording.Replica) bool { return p.KVBlocks != replicas[0].KVBlocks })
	if same { // otherwise each has what fits
		out.KVBlocks = replicas[0].KVBlocks
	}
	for _, p := range replicas {
		out.Devices = append(out.Devices, p.Node+"/"+p.Device)
		kind := kindOf(r, p)
		if out.Times[kind] != nil {
			continue
		}
		at := slices.IndexFunc(profiles,
			func(c cost.Profile) bool { return c.Fits(kind, d.WeightBytes, d.Name, folderOf(d)) })
		if at < 0 {
			return out, fmt.Errorf("no costs of model %s on %s; write them with troupe calibrate and set --costs, "+
				"or name a scenario with nodes and models", d.Name, kind)
		}
		out.Times[kind] = profiles[at].Steps.Steps
	}
	return out, nil
}

// kindOf returns the kind of the device of a replica.
func kindOf(r *recording.Recording, p recording.Replica) string {
	for _, n := range r.Snapshot.Nodes {
		for _, d := range n.Devices {
			if n.Name == p.Node && d.Name == p.Device {
				return d.Kind
			}
		}
	}
	return ""
}

// folderOf returns the name of the folder of a deployment's model.
func folderOf(d recording.Deployment) string {
	_, rest, found := strings.Cut(string(d.Spec), `"path":`)
	if !found {
		return ""
	}
	rest = strings.TrimPrefix(strings.TrimSpace(rest), `"`)
	folder, _, _ := strings.Cut(rest, `"`)
	return path.Base(folder)
}
