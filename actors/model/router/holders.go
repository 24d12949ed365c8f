package router

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// tierName names a tier in the cluster.
type tierName struct{ node, tier string }

func (n tierName) String() string { return n.tier + " on " + n.node }

// maxRuns bounds an answer: a prompt whose blocks lie in more places is not worth collecting.
const maxRuns = 8

// onTier takes the word of a tier of this node.
func (r *router) onTier(msg *messages.TierAnnounced) {
	r.adoptTier(r.Node, msg)
	r.news.Tiers = append(r.news.Tiers, msg)
}

func (r *router) adoptTier(node string, msg *messages.TierAnnounced) {
	name := tierName{node, msg.GetName()}
	r.tiers[name] = &messages.TierAnnounced{Name: msg.GetName(), Actor: msg.GetActor()}
	if msg.GetSnapshot() {
		r.held.Remove(name.String())
	}
	r.held.Update(name.String(), msg.GetEvicted(), msg.GetCommitted())
}

func (r *router) forgetTiers(node string) {
	for name := range r.tiers {
		if name.node == node {
			delete(r.tiers, name)
			r.held.Remove(name.String())
		}
	}
}

// tiersHere is what the tiers of this node hold.
func (r *router) tiersHere() (all []*messages.TierAnnounced) {
	for name, t := range r.tiers {
		if name.node == r.Node {
			held := r.held.BlocksOf(name.String())
			all = append(all, &messages.TierAnnounced{
				Name: t.GetName(), Actor: t.GetActor(), Committed: held[:min(len(held), snapshotBlocks)], Snapshot: true,
			})
		}
	}
	return all
}

// onFind says who holds blocks, from the first on and as far as there is no gap: at each place the one who has the most that follow. A replica is asked for what is
// in its HBM before a tier is, since that is the faster memory. The tiers of this node are asked by the replica itself, and nodes that say nothing by nobody:
// who asks them waits in vain.
func (r *router) onFind(ctx actor.Context, msg *messages.FindBlocks) {
	t, elsewhere := r.models[msg.GetModel()], r.elsewhere()
	result := &messages.FindBlocksResult{RequestId: msg.GetRequestId()}
	n := min(len(msg.GetBlocks()), len(msg.GetInTiers()))
	blocks, inTiers := msg.GetBlocks()[:n], msg.GetInTiers()[:n]
	for i := 0; len(result.GetHeld()) < maxRuns; {
		run := &messages.BlocksHeld{First: uint32(i)}
		name, n := r.held.LongestPrefix(inTiers[i:], msg.GetRequestId(), func(name string) bool { return elsewhere[name] != nil })
		if n > 0 {
			run.Name, run.Node, run.Holder, run.Blocks = name, elsewhere[name].node, elsewhere[name].actor, uint32(n)
		}
		if t != nil {
			name, m := t.routes.LongestPrefix(blocks[i:], msg.GetRequestId(), func(name string) bool {
				return name != msg.GetReplica() && !r.peers[t.replicas[name].node].mute()
			})
			if m > 0 && m >= n {
				holder := t.replicas[name]
				run.Name, run.Node, run.Holder, run.Blocks = "replica "+name+" on "+holder.node, holder.node, holder.status.GetActor(), uint32(m)
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

// holder is a tier of another node.
type holder struct {
	node  string
	actor *messages.ActorRef
}

// elsewhere are the tiers of other nodes that are heard from, by the name's String.
func (r *router) elsewhere() map[string]*holder {
	all := make(map[string]*holder)
	for name, t := range r.tiers {
		if name.node != r.Node && !r.peers[name.node].mute() {
			all[name.String()] = &holder{name.node, t.GetActor()}
		}
	}
	return all
}
