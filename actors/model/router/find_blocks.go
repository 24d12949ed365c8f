package router

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// tierName identifies a tier in the cluster.
type tierName struct{ node, tier string }

func (n tierName) String() string { return n.tier + " on " + n.node }

// maxRuns limits the runs in a result: blocks spread over more holders are not worth fetching.
const maxRuns = 8

// onTierAnnounced applies the announcement of a tier of this node.
func (r *router) onTierAnnounced(msg *messages.TierAnnounced) {
	r.applyTier(r.Node, msg)
	r.pendingDelta.Tiers = append(r.pendingDelta.Tiers, msg)
}

func (r *router) applyTier(node string, msg *messages.TierAnnounced) {
	name := tierName{node, msg.GetName()}
	r.tiers[name] = &messages.TierAnnounced{Name: msg.GetName(), Actor: msg.GetActor()}
	if msg.GetSnapshot() {
		r.tierBlocks.Remove(name.String())
	}
	r.tierBlocks.Update(name.String(), msg.GetEvicted(), msg.GetCommitted())
}

func (r *router) forgetTiers(node string) {
	for name := range r.tiers {
		if name.node == node {
			delete(r.tiers, name)
			r.tierBlocks.Remove(name.String())
		}
	}
}

// localTiers returns snapshots of the tiers of this node.
func (r *router) localTiers() (all []*messages.TierAnnounced) {
	for name, t := range r.tiers {
		if name.node == r.Node {
			held := r.tierBlocks.BlocksOf(name.String())
			all = append(all, &messages.TierAnnounced{
				Name: t.GetName(), Actor: t.GetActor(), Committed: held[:min(len(held), snapshotBlocks)],
				Snapshot: true,
			})
		}
	}
	return all
}

// onFindBlocks returns holders for the leading blocks of a prompt, up to the first block without a
// holder. Each run names the holder with the most of the following blocks. On a tie a replica comes
// before a tier, because HBM is faster. Tiers of this node are left out, because the replica asks
// them itself, and so are silent nodes.
func (r *router) onFindBlocks(ctx actor.Context, msg *messages.FindBlocks) {
	t, remote := r.models[msg.GetModel()], r.remoteTiers()
	result := &messages.FindBlocksResult{RequestId: msg.GetRequestId()}
	n := min(len(msg.GetBlocks()), len(msg.GetInTiers()))
	blocks, inTiers := msg.GetBlocks()[:n], msg.GetInTiers()[:n]
	for i := 0; len(result.GetHeld()) < maxRuns; {
		run := &messages.BlocksHeld{First: uint32(i)}
		name, n := r.tierBlocks.LongestPrefix(inTiers[i:], msg.GetRequestId(),
			func(name string) bool { return remote[name] != nil })
		if n > 0 {
			run.Name, run.Node, run.Holder, run.Blocks = name, remote[name].node, remote[name].actor, uint32(n)
		}
		if t != nil {
			name, m := t.routes.LongestPrefix(blocks[i:], msg.GetRequestId(), func(name string) bool {
				return name != msg.GetReplica() && !r.peers[t.replicas[name].node].isSilent()
			})
			if m > 0 && m >= n {
				holder := t.replicas[name]
				run.Name, run.Node, run.Holder, run.Blocks = "replica "+name+" on "+holder.node, holder.node,
					holder.status.GetActor(), uint32(m)
			}
		}
		if run.GetBlocks() == 0 {
			break
		}
		i += int(run.GetBlocks())
		result.Held = append(result.Held, run)
	}
	ctx.Respond(result)
}

// remoteTier is a tier of another node.
type remoteTier struct {
	node  string
	actor *messages.ActorRef
}

// remoteTiers returns the tiers of other nodes that are not silent, by tierName.String.
func (r *router) remoteTiers() map[string]*remoteTier {
	all := make(map[string]*remoteTier)
	for name, t := range r.tiers {
		if name.node != r.Node && !r.peers[name.node].isSilent() {
			all[name.String()] = &remoteTier{name.node, t.GetActor()}
		}
	}
	return all
}
