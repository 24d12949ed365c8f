package dst

import (
	"fmt"
	"math/rand/v2"

	"troupe/messages"
)

// adapterNames are the adapters of each model, the most popular first. They do not all fit into the
// pages of a replica.
var adapterNames = []string{"a0", "a1", "a2", "a3", "a4", largeAdapter}

const (
	largeAdapter = "large"
	adapterPages = 3 // of a replica
)

// registerAdapters stores the adapters of all models.
func (c *cluster) registerAdapters() {
	for _, m := range c.models {
		for _, name := range adapterNames {
			c.register(m.name, name)
		}
	}
}

// register stores an adapter, or a new revision of it, which has other files.
func (c *cluster) register(model, name string) {
	key := model + "/" + name
	c.files[key]++
	c.operator.register(&messages.AdapterSpec{Name: name, Model: model, Rank: adapterRank,
		Path: fmt.Sprintf("%s/%d", adapterFolder(model, name), c.files[key])})
}

// pickAdapter returns the adapter of a request: none for half of them, otherwise one by Zipf's law.
func pickAdapter(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return ""
	}
	return adapterNames[rand.NewZipf(rng, 1.3, 2, uint64(len(adapterNames)-1)).Uint64()]
}

// bindAdapter resolves the adapter of a call by the catalogue of its node, as the gateway does. It
// returns false if the node does not know the adapter.
func (n *Node) bindAdapter(call *Call) bool {
	name := call.Sequence.GetAdapter()
	if name == "" {
		return true
	}
	spec, err := n.catalogue.Find(call.Sequence.GetModel()+":"+name,
		func(*messages.AdapterSpec) bool { return true })
	if spec == nil || err != nil {
		call.Fail(&messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND, Detail: "no adapter " + name})
		return false
	}
	call.Sequence.AdapterSpec = spec
	call.expect(adapterID(spec.GetPath()))
	return true
}
