package record

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
	"troupe/observe/top"
	"troupe/recording"
)

// snapshot returns the nodes, deployments and replicas of the moment.
func (r *Recorder) snapshot(ctx context.Context) (recording.Snapshot, error) {
	now, err := top.Observe(ctx, r.Ask)
	if err == nil {
		err = now.Err
	}
	if err != nil {
		return recording.Snapshot{}, err
	}
	kv, err := top.ObserveKV(ctx, r.Ask)
	if err != nil {
		return recording.Snapshot{}, err
	}
	s := recording.Snapshot{Nodes: withTiers(nodesOf(now.Nodes), kv.GetNodes()), Replicas: replicasOf(now.Models),
		Profiles: r.Profiles}
	for _, m := range now.Models {
		d, err := r.deployment(ctx, m, now.Nodes)
		if err != nil {
			return s, err
		}
		s.Deployments = append(s.Deployments, d)
	}
	return s, nil
}

func nodesOf(nodes []*messages.NodeStatus) (all []recording.Node) {
	for _, n := range nodes {
		if n.GetUnreachable() != "" {
			continue
		}
		node := recording.Node{Name: n.GetMember().GetName(), Version: n.GetMember().GetVersion()}
		for _, g := range n.GetGpus() {
			d := recording.Device{
				Name: g.GetName(), Kind: g.GetProduct(), Software: g.GetSimulated(),
				MemoryBytes: int64(g.GetMemoryBytes()),
				Switches:    g.GetSwitches().GetSwitched() + g.GetSwitches().GetFailed(),
			}
			for _, part := range []*durationpb.Duration{g.GetSwitches().GetDrain(), g.GetSwitches().GetFree(),
				g.GetSwitches().GetLoad(), g.GetSwitches().GetStart()} {
				d.SwitchSeconds += part.AsDuration().Seconds()
			}
			if d.MemoryBytes > 0 {
				d.KVReserve = float64(g.GetBudget().GetKvReserve()) / float64(d.MemoryBytes)
			}
			node.Devices = append(node.Devices, d)
		}
		all = append(all, node)
	}
	return all
}

// withTiers adds the KV tiers of the nodes.
func withTiers(nodes []recording.Node, kv []*messages.KvNode) []recording.Node {
	for i := range nodes {
		for _, n := range kv {
			if n.GetNode() != nodes[i].Name {
				continue
			}
			for _, t := range n.GetTiers() {
				nodes[i].Tiers = append(nodes[i].Tiers, recording.Tier{Name: t.GetSlots().GetName(),
					Bytes:  int64(t.GetSlots().GetCapacityBytes()),
					Policy: t.GetPolicy(), Watermark: t.GetWatermark()})
			}
		}
	}
	return nodes
}

func replicasOf(models []*messages.DeploymentStatus) (all []recording.Replica) {
	for _, m := range models {
		for _, p := range m.GetReplicas() {
			all = append(all, recording.Replica{
				Name: p.GetName(), Model: m.GetSpec().GetName(), Node: p.GetNode(), Device: p.GetGpu(),
				State:    strings.ToLower(strings.TrimPrefix(p.GetState().String(), "REPLICA_STATE_")),
				KVBlocks: int(p.GetKvBlocks()), KVBlockBytes: int64(p.GetKvBlockBytes()),
				KVCached: int(p.GetKvBlocksCached()),
				Steps:    p.GetSteps(), StepSeconds: p.GetStepTime().AsDuration().Seconds(),
				TokensIn: p.GetTokensIn(), TokensOut: p.GetTokensOut(),
				TokensCached: p.GetTokensCached(), Preemptions: p.GetPreemptions(), Loads: p.GetLoads(),
				AdapterLoads: p.GetAdapterCounts().GetLoads(),
			})
		}
	}
	return all
}

// deployment returns a deployment with the sizes of its model, which a node reads from the folder.
func (r *Recorder) deployment(ctx context.Context, m *messages.DeploymentStatus, nodes []*messages.NodeStatus) (
	recording.Deployment, error) {
	s := m.GetSpec()
	d := recording.Deployment{
		Name: s.GetName(), Class: strings.ToLower(strings.TrimPrefix(s.RequestClass().String(), "PRIORITY_CLASS_")),
		MaxSequences: int(s.GetMaxSequences()), MaxWaiting: int(s.GetMaxWaiting()), StepTokens: int(s.GetStepTokens()),
		BlockTokens: int(s.GetBlockTokens()), KVBlocks: int(s.GetKvBlocks()),
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(s)
	if err != nil {
		return d, err
	}
	d.Spec = text
	for _, n := range nodes {
		files := &messages.NodeModelResponse{}
		err := r.ask(ctx, "node."+n.GetMember().GetName()+".model",
			&messages.NodeModelRequest{Path: s.GetPath(), RevisionDigest: s.GetRevisionDigest(),
				Engine: s.GetEngine().GetKind()}, files)
		if err == nil && files.GetSizes() != nil {
			d.ContextTokens = int(files.GetSizes().GetContextTokens())
			d.WeightBytes = int64(files.GetSizes().GetWeightBytes())
			break
		}
	}
	return d, nil
}

// ask asks once, for a second at most.
func (r *Recorder) ask(ctx context.Context, endpoint string, request, answer message) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return r.Ask(ctx, endpoint, request, answer)
}
