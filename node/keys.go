package node

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/quota"
	"troupe/gateway"
	"troupe/messages"
)

const usageID = nodeID + "/usage"

// usageProps returns the props of the actor that reports the usage of this node's clients to the
// other nodes.
func (n *Node) usageProps() *actor.Props {
	return gateway.UsageProps(gateway.UsageConfig{
		Node: n.cfg.Name, Quotas: n.shares, Members: n.currentMembers,
		Peer: func(m *messages.Member) *actor.PID { return actor.NewPID(m.GetAddress(), usageID) },
	})
}

// Keys implements control.Backend with the keys of this node's file and their usage in the cluster.
func (n *Node) Keys(ctx context.Context) ([]*messages.KeyStatus, error) {
	if n.cfg.Keys == nil {
		return nil, nil
	}
	used, err := ask[*messages.UsageStatus](ctx, n, usageID, &messages.GetUsage{})
	if err != nil {
		return nil, err
	}
	byClient := make(map[string]*messages.ClientUsage)
	for _, u := range used.GetClients() {
		byClient[u.GetClient()] = u
	}
	var all []*messages.KeyStatus
	for _, k := range n.cfg.Keys.All() {
		u := byClient[gateway.KeyClientName(k.Name)]
		if u == nil { // not used yet, so its limits are untouched
			u = &messages.ClientUsage{
				Client:       gateway.KeyClientName(k.Name),
				RequestsLeft: float64(k.Limits.RequestsPerMinute),
				TokensLeft:   float64(k.Limits.TokensPerMinute),
			}
		}
		u.Limits = gateway.LimitsToMessage(quota.Limits(k.Limits))
		all = append(all, &messages.KeyStatus{
			Name: k.Name, Tenant: k.Tenant, Admin: k.Admin, MaxPriority: k.MaxPriority, Weight: k.Weight, Usage: u,
		})
	}
	return all, nil
}
