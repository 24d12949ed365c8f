package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/kvblock"
	"troupe/cluster/store"
	"troupe/control"
	"troupe/gateway/openai"
	"troupe/messages"
)

const (
	hbmName = "hbm"
	// kvMoveTimeout bounds how long a command of the operator may copy blocks.
	kvMoveTimeout = time.Minute
	// kvMoveRetry is the time after which a command is sent again to a replica that has not
	// answered, in case the replica crashed.
	kvMoveRetry = 10 * time.Second
)

// KV implements control.Backend.
func (n *Node) KV(ctx context.Context, req *messages.KvNodeRequest) (*messages.KvNodeResponse, error) {
	local, err := n.localReplicas(ctx)
	if err != nil {
		return nil, err
	}
	switch w := req.GetWhat().(type) {
	case *messages.KvNodeRequest_Stats:
		stats, err := n.kvStats(ctx, local)
		return &messages.KvNodeResponse{Node: stats}, err
	case *messages.KvNodeRequest_Offload:
		replicas := filterReplicas(local, w.Offload.GetModel(), w.Offload.GetReplica())
		return n.moveBlocks(ctx, replicas, &messages.OffloadBlocks{RequestId: rand.Text()}), nil
	case *messages.KvNodeRequest_Restore:
		adapter, err := n.adapterRevision(w.Restore.GetModel(), w.Restore.GetAdapter())
		if err != nil {
			return nil, err
		}
		salt, err := n.salt(w.Restore.GetTenant(), "")
		if err != nil {
			return nil, control.Refuse(messages.Reason_REASON_NOT_READY, err.Error())
		}
		replicas := filterReplicas(local, w.Restore.GetModel(), w.Restore.GetReplica())
		return n.moveBlocks(ctx, replicas, &messages.RestoreBlocks{
			RequestId: rand.Text(), Adapter: adapter, Tokens: w.Restore.GetTokens(), CacheSalt: salt,
		}), nil
	case *messages.KvNodeRequest_Flush:
		return n.flush(ctx, local, w.Flush.GetTier())
	}
	return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
		`no command; send {"stats": {}}, or "offload", "restore", "flush"`)
}

// localReplicas returns the status of this node's replicas. For a replica that does not answer at
// once, it is the status that the router has.
func (n *Node) localReplicas(ctx context.Context) ([]*messages.ReplicaStatus, error) {
	t, err := ask[*messages.ClusterView](ctx, n, routerID, &messages.GetClusterView{})
	if err != nil {
		return nil, err
	}
	local := slices.DeleteFunc(slices.Clone(t.GetReplicas()),
		func(r *messages.ReplicaStatus) bool { return r.GetNode() != n.cfg.Name })
	var queries sync.WaitGroup
	for i, r := range local {
		queries.Go(func() {
			to := actor.NewPID(r.GetActor().GetAddress(), r.GetActor().GetId())
			now, err := askFor[*messages.ReplicaStatus](ctx, n, to, &messages.GetReplica{}, queryRetry, queryRetry)
			if err == nil {
				local[i] = now
			}
		})
	}
	queries.Wait()
	slices.SortFunc(local, func(a, b *messages.ReplicaStatus) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return local, nil
}

// filterReplicas returns the replicas of a model and with a name; "" matches all.
func filterReplicas(all []*messages.ReplicaStatus, model, name string) []*messages.ReplicaStatus {
	return slices.DeleteFunc(slices.Clone(all), func(r *messages.ReplicaStatus) bool {
		return model != "" && r.GetModel() != model || name != "" && r.GetName() != name
	})
}

func (n *Node) kvStats(ctx context.Context, local []*messages.ReplicaStatus) (*messages.KvNode, error) {
	tiers, err := n.Tiers(ctx)
	if err != nil {
		return nil, err
	}
	stats := &messages.KvNode{Node: n.cfg.Name, Replicas: local, Paths: n.copyMetrics.paths()}
	for i, t := range n.tiers {
		stats.Tiers = append(stats.Tiers, &messages.KvTier{
			Detail: t.detail, SlotBytes: uint64(t.store.SlotBytes()), Slots: tiers[i],
			Watermark: n.cfg.Tiers.Watermark, Policy: n.cfg.Tiers.Policy,
		})
	}
	remote, err := n.Remote(ctx)
	if remote != nil {
		stats.Tiers = append(stats.Tiers, remoteStats(remote))
	}
	return stats, err
}

// moveBlocks sends a command to all of the replicas at once. If one fails, its result has the
// reason.
func (n *Node) moveBlocks(ctx context.Context, replicas []*messages.ReplicaStatus,
	order proto.Message) *messages.KvNodeResponse {
	moved := make([]*messages.KvMoved, len(replicas))
	var queries sync.WaitGroup
	for i, r := range replicas {
		queries.Go(func() {
			to := actor.NewPID(r.GetActor().GetAddress(), r.GetActor().GetId())
			answer, err := askFor[*messages.BlocksMoved](ctx, n, to, order, kvMoveRetry, kvMoveTimeout)
			if moved[i], err = blocksMoved(answer, err); err != nil {
				moved[i] = &messages.KvMoved{Node: n.cfg.Name, Replica: r.GetName(), Detail: err.Error()}
			}
		})
	}
	queries.Wait()
	return &messages.KvNodeResponse{Moved: moved}
}

func blocksMoved(answer *messages.BlocksMoved, err error) (*messages.KvMoved, error) {
	return outcome(answer.GetMoved(), answer.GetRefused(), err)
}

// flush drops the blocks of one tier of this node, or of all tiers if name is empty.
func (n *Node) flush(ctx context.Context, local []*messages.ReplicaStatus,
	name string) (*messages.KvNodeResponse, error) {
	if name == kvblock.RemoteName {
		return &messages.KvNodeResponse{Moved: []*messages.KvMoved{{
			Node: n.cfg.Name, Tier: name,
			Detail: "this tier keeps no blocks; " +
				"flush dram, nvme or hbm of the nodes that hold them",
		}}}, nil
	}
	res := &messages.KvNodeResponse{}
	if name == "" || name == hbmName {
		res = n.moveBlocks(ctx, local, &messages.FlushBlocks{RequestId: rand.Text()})
	}
	for _, t := range n.tiers {
		if name != "" && name != t.name {
			continue
		}
		order := &messages.FlushBlocks{RequestId: rand.Text()}
		moved, err := blocksMoved(ask[*messages.BlocksMoved](ctx, n, tiersID+"/"+t.name, order))
		if err != nil {
			return nil, fmt.Errorf("tier %s: %w", t.name, err)
		}
		res.Moved = append(res.Moved, moved)
	}
	for _, m := range res.GetMoved() {
		m.Node = n.cfg.Name
	}
	return res, nil
}

// Prefix implements control.Backend.
func (n *Node) Prefix(ctx context.Context, of *messages.KvPinRequest) (tokens []uint32, blockTokens int, err error) {
	d, err := n.Deployment(ctx, of.GetModel())
	if err != nil {
		return nil, 0, n.adapterHint(of.GetModel(), err)
	}
	if _, err := n.adapterRevision(of.GetModel(), of.GetAdapter()); err != nil {
		return nil, 0, err
	}
	turns := make([]openai.Message, len(of.GetMessages()))
	for i, m := range of.GetMessages() {
		turns[i] = openai.Message{Role: m.GetRole(), Content: m.GetContent()}
	}
	if tokens = of.GetTokens(); len(tokens) > 0 {
		err = n.gateway.CheckPrefix(ctx, of.GetModel(), tokens)
	} else {
		tokens, err = n.gateway.EncodePrefix(ctx, of.GetModel(), of.GetPrompt(), turns)
	}
	if wrong := (*openai.Error)(nil); errors.As(err, &wrong) {
		err = control.Refuse(wrong.Reason, wrong.Message)
	}
	return tokens, int(d.GetSpec().GetBlockTokens()), err
}

// Pin implements control.Backend.
func (n *Node) Pin(ctx context.Context, pin *messages.PinnedPrefix) error {
	err := n.store.PutPin(ctx, pin)
	if err == nil {
		n.events.Publish("kv.pinned", pin.GetName(), fmt.Sprintf("%d blocks of %s", pin.GetBlocks(), pin.GetModel()))
	}
	return err
}

// Unpin implements control.Backend.
func (n *Node) Unpin(ctx context.Context, name string) error {
	err := n.store.DeletePin(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("no prefix is pinned as %q; kv.stats names the pins", name))
	}
	if err == nil {
		n.events.Publish("kv.unpinned", name, "its blocks can be evicted again")
	}
	return err
}

// pinSet is the set of pinned prefixes. It is safe for concurrent use.
type pinSet struct {
	mu      sync.Mutex
	version uint64
	byName  map[string]*messages.PinnedPrefix
}

// apply applies a change of the stored pins.
func (p *pinSet) apply(c store.PinChange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	if delete(p.byName, c.Name); c.Pin != nil {
		p.byName[c.Name] = c.Pin
	}
}

// of returns the pins of a model, or of all models if it is "", by name, and a version that changes
// with them.
func (p *pinSet) of(model string) (version uint64, all []*messages.PinnedPrefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pin := range p.byName {
		if model == "" || pin.GetModel() == model {
			all = append(all, pin)
		}
	}
	slices.SortFunc(all, func(a, b *messages.PinnedPrefix) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return p.version, all
}

// Pins implements control.Backend.
func (n *Node) Pins() []*messages.PinnedPrefix {
	_, all := n.pins.of("")
	return all
}

// watchPins follows the stored pins.
func (n *Node) watchPins(ctx context.Context, synced func()) {
	for ctx.Err() == nil {
		err := n.store.WatchPins(ctx, func(c store.PinChange) {
			if c.Synced {
				synced()
				return
			}
			n.pins.apply(c)
		})
		select {
		case <-ctx.Done():
		case <-time.After(rewatchDelay):
			n.cfg.Log.Warn().Err(err).Msg("store lost; watching pins again")
		}
	}
}
