package backend

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/cluster/bulk"
	"troupe/control"
	"troupe/core/units"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/node/metrics"
	"troupe/node/query"
	"troupe/node/steps"
	"troupe/node/tiers"
)

const (
	// kvMoveTimeout is the maximum time for which an operator's command may copy blocks.
	kvMoveTimeout = time.Minute
	// kvMoveRetry is the time after which a command is sent again to a replica that has not
	// answered, in case the replica crashed.
	kvMoveRetry = 10 * time.Second
)

// KVControl implements control.KVBackend.
type KVControl struct {
	Status     *Status
	Lower      *tiers.Tiers
	Copies     *metrics.Copies
	Prefixes   *Prefixes
	Store      PinStore
	Deployment func(ctx context.Context, name string) (*messages.DeploymentStatus, error)
	Gateway    Encoder
	Publish    Publish
}

func (k *KVControl) runtime() supervise.Runtime { return supervise.RuntimeOf(k.Status.System) }

// KV implements control.Backend.
func (k *KVControl) KV(ctx context.Context, req *messages.KvNodeRequest) (*messages.KvNodeResponse, error) {
	local, err := k.Status.LocalReplicas(ctx)
	if err != nil {
		return nil, err
	}
	switch w := req.GetWhat().(type) {
	case *messages.KvNodeRequest_Stats:
		stats, err := k.stats(ctx, local)
		return &messages.KvNodeResponse{Node: stats}, err
	case *messages.KvNodeRequest_Offload:
		replicas := filterReplicas(local, w.Offload.GetModel(), w.Offload.GetReplica())
		return k.moveBlocks(ctx, replicas, &messages.OffloadBlocks{RequestId: k.runtime().ID()}), nil
	case *messages.KvNodeRequest_Restore:
		adapter, err := k.Prefixes.Revision(w.Restore.GetModel(), w.Restore.GetAdapter())
		if err != nil {
			return nil, err
		}
		salt, err := k.Prefixes.Secret.Salt(w.Restore.GetTenant(), "")
		if err != nil {
			return nil, control.Refuse(messages.Reason_REASON_NOT_READY, err.Error())
		}
		replicas := filterReplicas(local, w.Restore.GetModel(), w.Restore.GetReplica())
		return k.moveBlocks(ctx, replicas, &messages.RestoreBlocks{
			RequestId: k.runtime().ID(), Adapter: adapter, Tokens: w.Restore.GetTokens(), CacheSalt: salt,
		}), nil
	case *messages.KvNodeRequest_Flush:
		return k.flush(ctx, local, w.Flush.GetTier())
	}
	return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
		`no command; send {"stats": {}}, or "offload", "restore", "flush"`)
}

// filterReplicas returns the replicas that have the given model and name; "" matches all.
func filterReplicas(all []*messages.ReplicaStatus, model, name string) []*messages.ReplicaStatus {
	return slices.DeleteFunc(slices.Clone(all), func(r *messages.ReplicaStatus) bool {
		return model != "" && r.GetModel() != model || name != "" && r.GetName() != name
	})
}

func (k *KVControl) stats(ctx context.Context, local []*messages.ReplicaStatus) (*messages.KvNode, error) {
	tiers, err := k.Status.Tiers(ctx)
	if err != nil {
		return nil, err
	}
	stats := &messages.KvNode{Node: k.Status.Node, Replicas: local, Paths: k.Copies.Paths()}
	for i, t := range k.Lower.Lower {
		stats.Tiers = append(stats.Tiers, &messages.KvTier{
			Detail: t.Detail, SlotBytes: uint64(t.Store.SlotBytes()), Slots: tiers[i],
			Watermark: k.Lower.Watermark, Policy: k.Lower.Policy,
		})
	}
	remote, err := k.Status.Remote(ctx)
	if remote != nil {
		stats.Tiers = append(stats.Tiers, remoteStats(remote))
	}
	return stats, err
}

// moveBlocks sends a command to all replicas at once. If the command fails on a replica, the result
// of that replica has the reason.
func (k *KVControl) moveBlocks(ctx context.Context, replicas []*messages.ReplicaStatus,
	order proto.Message) *messages.KvNodeResponse {
	moved := make([]*messages.KvMoved, len(replicas))
	steps.All(k.runtime(), len(replicas), func(i int) {
		r := replicas[i]
		to := actor.NewPID(r.GetActor().GetAddress(), r.GetActor().GetId())
		answer, err := query.Within[*messages.BlocksMoved](ctx, k.Status.System, to, order, kvMoveRetry, kvMoveTimeout)
		if moved[i], err = blocksMoved(answer, err); err != nil {
			moved[i] = &messages.KvMoved{Node: k.Status.Node, Replica: r.GetName(), Detail: err.Error()}
		}
	})
	return &messages.KvNodeResponse{Moved: moved}
}

func blocksMoved(answer *messages.BlocksMoved, err error) (*messages.KvMoved, error) {
	return query.Outcome(answer.GetMoved(), answer.GetRefused(), err)
}

// flush drops the blocks of one tier of this node, or of all tiers if name is empty.
func (k *KVControl) flush(ctx context.Context, local []*messages.ReplicaStatus,
	name string) (*messages.KvNodeResponse, error) {
	if name == kvblock.RemoteName {
		return &messages.KvNodeResponse{Moved: []*messages.KvMoved{{
			Node: k.Status.Node, Tier: name,
			Detail: "this tier keeps no blocks; " +
				"flush dram, nvme or hbm of the nodes that hold them",
		}}}, nil
	}
	res := &messages.KvNodeResponse{}
	if name == "" || name == metrics.HBM {
		res = k.moveBlocks(ctx, local, &messages.FlushBlocks{RequestId: k.runtime().ID()})
	}
	for _, t := range k.Lower.Lower {
		if name != "" && name != t.Name {
			continue
		}
		order := &messages.FlushBlocks{RequestId: k.runtime().ID()}
		moved, err := blocksMoved(query.Ask[*messages.BlocksMoved](ctx, k.Status.System, query.Tier(t.Name), order))
		if err != nil {
			return nil, fmt.Errorf("tier %s: %w", t.Name, err)
		}
		res.Moved = append(res.Moved, moved)
	}
	for _, m := range res.GetMoved() {
		m.Node = k.Status.Node
	}
	return res, nil
}

// remoteStats returns the remote tier's entry in kv.stats.
func remoteStats(s *messages.SlotsStatus) *messages.KvTier {
	return &messages.KvTier{
		Detail: fmt.Sprintf("blocks of other nodes; at most %s in flight",
			units.FormatBytes(int64(s.GetCapacityBytes()))),
		SlotBytes: bulk.MaxChunkBytes - kvstore.SealBytes, Slots: s,
	}
}
