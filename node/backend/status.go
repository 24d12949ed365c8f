package backend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/modelfile/digest"
	"troupe/node/query"
	"troupe/node/steps"
)

// tierTimeout is the maximum time for a tier to answer.
const tierTimeout = 5 * time.Second

// Status queries the actors of this node for their state.
type Status struct {
	Node      string // name of this node
	System    *actor.ActorSystem
	GPUs      []string // names of the GPUs
	Lower     []string // names of the tiers below HBM, fastest first
	HostCache bool     // there is a cache of weights
	// NoRemote is set if there is no remote tier.
	NoRemote bool
}

// Cluster returns the cluster as the router of this node knows it.
func (s *Status) Cluster(ctx context.Context) (*messages.ClusterView, error) {
	return query.Ask[*messages.ClusterView](ctx, s.System, query.Router, &messages.GetClusterView{})
}

// LocalGPUs returns the status of this node's devices.
func (s *Status) LocalGPUs(ctx context.Context) ([]*messages.GpuStatus, error) {
	var all []*messages.GpuStatus
	for _, name := range s.GPUs {
		g, err := query.Ask[*messages.GpuStatus](ctx, s.System, query.GPU(name), &messages.GetGpu{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// treeTimeout is how long Weights and Faults wait for an actor. The tree of actors is there to find those
// that hang, so it must not wait for them.
const treeTimeout = 200 * time.Millisecond

// Faults returns the faults of this node's replicas, by their names, as its router knows them.
func (s *Status) Faults(ctx context.Context) map[string]*messages.ReplicaFault {
	ctx, cancel := supervise.RuntimeOf(s.System).WithTimeout(ctx, treeTimeout)
	defer cancel()
	faults := make(map[string]*messages.ReplicaFault)
	c, err := s.Cluster(ctx)
	if err != nil {
		return faults
	}
	for _, r := range c.GetReplicas() {
		if r.GetNode() == s.Node && r.GetFault() != nil {
			faults[r.GetName()] = r.GetFault()
		}
	}
	return faults
}

// Weights returns the weights on this node's devices, by the names of the GPUs that answer, and the
// images in its host cache as those of "hostcache".
func (s *Status) Weights(ctx context.Context) map[string][]*messages.GpuWeights {
	rt := supervise.RuntimeOf(s.System)
	ctx, cancel := rt.WithTimeout(ctx, treeTimeout)
	defer cancel()
	answers := make([]*messages.GpuStatus, len(s.GPUs))
	steps.All(rt, len(s.GPUs), func(i int) {
		answers[i], _ = query.Ask[*messages.GpuStatus](ctx, s.System, query.GPU(s.GPUs[i]), &messages.GetGpu{})
	})
	weights := make(map[string][]*messages.GpuWeights)
	for i, g := range answers {
		weights[s.GPUs[i]] = g.GetWeights()
	}
	if cache, err := s.LocalHostCache(ctx); err == nil {
		weights["hostcache"] = parked(cache)
	}
	return weights
}

// LocalHostCache returns the status of this node's host cache of weights, or nil if there is none.
func (s *Status) LocalHostCache(ctx context.Context) (*messages.HostCacheStatus, error) {
	if !s.HostCache {
		return nil, nil
	}
	return query.Ask[*messages.HostCacheStatus](ctx, s.System, query.HostCache, &messages.GetHostCache{})
}

// parked describes the images of a host cache as weights, those of adapters together, and those on disk,
// which are cold.
func parked(cache *messages.HostCacheStatus) (all []*messages.GpuWeights) {
	for _, i := range cache.GetImages() {
		all = append(all, &messages.GpuWeights{
			Owner: "image-" + digest.Short(i.GetRevisionDigest()), Model: i.GetModel(), Path: i.GetPath(),
			RevisionDigest: i.GetRevisionDigest(), Level: messages.Level_LEVEL_PARKED, Bytes: i.GetBytes(),
			Loading: i.GetState() == "filling",
		})
	}
	if n := cache.GetAdapterCopies(); n > 0 {
		all = append(all, &messages.GpuWeights{
			Owner: "adapters", Model: fmt.Sprintf("%d adapters", n), Level: messages.Level_LEVEL_PARKED,
			Bytes: cache.GetAdapterBytes(),
		})
	}
	for _, i := range cache.GetDisk().GetImages() {
		all = append(all, &messages.GpuWeights{
			Owner: "disk-" + digest.Short(i.GetRevisionDigest()), Model: i.GetModel(), Path: i.GetPath(),
			RevisionDigest: i.GetRevisionDigest(), Level: messages.Level_LEVEL_COLD, Bytes: i.GetBytes(),
			Loading: i.GetState() == "filling",
		})
	}
	return all
}

// LocalReplicas returns the status of this node's replicas. For a replica that does not answer at
// once, it returns the status that the router has.
func (s *Status) LocalReplicas(ctx context.Context) ([]*messages.ReplicaStatus, error) {
	c, err := s.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	local := slices.DeleteFunc(slices.Clone(c.GetReplicas()),
		func(r *messages.ReplicaStatus) bool { return r.GetNode() != s.Node })
	steps.All(supervise.RuntimeOf(s.System), len(local), func(i int) {
		to := actor.NewPID(local[i].GetActor().GetAddress(), local[i].GetActor().GetId())
		now, err := query.Within[*messages.ReplicaStatus](ctx, s.System, to, &messages.GetReplica{},
			query.Retry, query.Retry)
		if err == nil {
			local[i] = now
		}
	})
	slices.SortFunc(local, func(a, b *messages.ReplicaStatus) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return local, nil
}

// Tiers returns the usage of the tiers below HBM.
func (s *Status) Tiers(context.Context) ([]*messages.SlotsStatus, error) {
	var all []*messages.SlotsStatus
	for _, name := range s.Lower {
		tier := query.Local(s.System, query.Tier(name))
		answer, err := supervise.Request(s.System.Root, tier, &messages.GetSlots{RequestId: name}, tierTimeout).Result()
		if err != nil {
			return nil, fmt.Errorf("tier %s: %w", name, err)
		}
		all = append(all, answer.(*messages.SlotsStatus))
	}
	return all, nil
}

// Remote returns the status of the remote tier, or nil if there is none.
func (s *Status) Remote(ctx context.Context) (*messages.SlotsStatus, error) {
	if s.NoRemote {
		return nil, nil
	}
	answer, err := query.Ask[*messages.SlotsStatus](ctx, s.System, query.Tier(kvblock.RemoteName),
		&messages.GetSlots{RequestId: kvblock.RemoteName})
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", kvblock.RemoteName, err)
	}
	return answer, nil
}
