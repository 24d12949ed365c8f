package catalogue

import (
	"cmp"
	"slices"

	"troupe/messages"
)

// Stats merges the replicas' reports on the adapters of a model, or of all models if model is
// empty.
func (c *Catalogue) Stats(model string, replicas []*messages.ReplicaStatus) *messages.AdapterStatsResponse {
	registered := make(map[key]bool)
	for _, a := range c.All(model) {
		registered[key{a.GetModel(), a.GetName(), a.GetRevision()}] = true
	}
	res := &messages.AdapterStatsResponse{Registered: uint32(len(registered))}
	found := make(map[key]*messages.AdapterStats)
	inHost := make(map[key]map[string]bool) // the nodes that have a copy, which their replicas share
	for _, r := range replicas {
		if model != "" && r.GetModel() != model {
			continue
		}
		for _, h := range r.GetAdapters() {
			k := key{r.GetModel(), h.GetName(), h.GetRevision()}
			if found[k] == nil {
				found[k] = &messages.AdapterStats{
					Name:     k.name,
					Model:    k.model,
					Revision: k.revision,
					Deleted:  !registered[k],
				}
				res.Adapters = append(res.Adapters, found[k])
			}
			found[k].Sequences += h.GetSequences()
			found[k].Replicas = append(found[k].Replicas, &messages.ReplicaAdapter{
				Replica: r.GetName(), Node: r.GetNode(), Location: h.GetLocation(), Sequences: h.GetSequences(),
				Pinned: h.GetPinned(),
			})
			switch h.GetLocation() {
			case messages.AdapterLocation_ADAPTER_LOCATION_GPU:
				res.OnGpu++
			case messages.AdapterLocation_ADAPTER_LOCATION_DRAM:
				if inHost[k] == nil {
					inHost[k] = make(map[string]bool)
				}
				inHost[k][r.GetNode()] = true
			}
		}
	}
	for _, nodes := range inHost {
		res.InDram += uint32(len(nodes))
	}
	slices.SortFunc(res.Adapters, busiest)
	return res
}

// key is one revision of an adapter.
type key struct {
	model, name string
	revision    uint64
}

func busiest(a, b *messages.AdapterStats) int {
	return cmp.Or(
		cmp.Compare(b.GetSequences(), a.GetSequences()),
		cmp.Compare(len(b.GetReplicas()), len(a.GetReplicas())),
		cmp.Compare(
			a.GetModel(),
			b.GetModel(),
		),
		cmp.Compare(a.GetName(), b.GetName()),
		cmp.Compare(a.GetRevision(), b.GetRevision()),
	)
}
