package control

import (
	"context"

	"troupe/messages"
)

// revision is one revision of an adapter.
type revision struct {
	model, name string
	number      uint64
}

// adapterUses returns what adapters were used for on all nodes, in their order, and the nodes that did not answer.
func (c *control) adapterUses(
	ctx context.Context, req *messages.NodeAdaptersRequest, adapters []*messages.AdapterSpec,
) (uses []*messages.AdapterUse, missing []string, err error) {
	stats, err := c.Backend.AdapterStats(ctx, req.GetModel())
	if err != nil {
		return nil, nil, err
	}
	byRevision := make(map[revision]*messages.AdapterUse, len(adapters))
	for _, a := range adapters {
		u := &messages.AdapterUse{Name: a.GetName(), Model: a.GetModel(), Revision: a.GetRevision()}
		uses = append(uses, u)
		byRevision[revision{u.GetModel(), u.GetName(), u.GetRevision()}] = u
	}
	for _, s := range stats.GetAdapters() {
		if u := byRevision[revision{s.GetModel(), s.GetName(), s.GetRevision()}]; u != nil {
			u.Users = s.GetSequences()
			for _, r := range s.GetReplicas() {
				if r.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU {
					u.OnGpu++
				}
			}
		}
	}
	for i, u := range uses {
		u.Bytes = uint64(u.GetOnGpu()) * adapters[i].GetBytes()
	}
	for _, n := range c.view.adapterUses(ctx, req) {
		if n.err != nil {
			missing = append(missing, n.node)
			continue
		}
		for _, of := range n.uses {
			if u := byRevision[revision{of.GetModel(), of.GetName(), of.GetRevision()}]; u != nil {
				u.Sequences += of.GetSequences()
				u.Loads += of.GetLoads()
				if of.GetLastUsed().AsTime().After(u.GetLastUsed().AsTime()) {
					u.LastUsed = of.GetLastUsed()
				}
			}
		}
	}
	return uses, missing, nil
}

// nodeUses is what adapters were used for on a node.
type nodeUses struct {
	node string
	uses []*messages.AdapterUse
	err  error // why it is not known
}

// adapterUses asks all nodes what adapters were used for.
func (v *View) adapterUses(ctx context.Context, req *messages.NodeAdaptersRequest) []nodeUses {
	return askAll(ctx, v.runtime(), v.members(), func(ctx context.Context, m *messages.Member) nodeUses {
		if m.GetName() == v.Node {
			return nodeUses{node: m.GetName(), uses: v.Backend.AdapterUses(req)}
		}
		answer := &messages.NodeAdaptersResponse{}
		err := v.ask(ctx, m.GetName()+".adapters", req, answer)
		return nodeUses{m.GetName(), answer.GetUses(), err}
	})
}

func (c *control) nodeAdapters(
	_ context.Context, req *messages.NodeAdaptersRequest,
) (*messages.NodeAdaptersResponse, error) {
	return &messages.NodeAdaptersResponse{Uses: c.Backend.AdapterUses(req)}, nil
}
