package dst

import (
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"troupe/control/catalogue"
	"troupe/node/backend"
	"troupe/node/stored"
)

// blockTokens is the number of tokens of a KV block.
const blockTokens = 16

// systemPrompts is the number of prompts with which many requests begin.
const systemPrompts = 3

// systemPrompt returns one of these prompts. Their lengths are not multiples of a block.
func systemPrompt(i int) (p []uint32) {
	for t := range 20 * (2 + i) {
		p = append(p, uint32(1+(t*(i+7))%(vocab-1)))
	}
	return p
}

// pickSalt returns the cache salt of a request: none for most of them, otherwise that of one of two
// tenants.
func pickSalt(rng *rand.Rand) []byte {
	if i := rng.IntN(8); i < 2 {
		return []byte{'t', 'e', 'n', 'a', 'n', 't', byte('0' + i)}
	}
	return nil
}

// again returns a call with the same prompt, as the gateway opens for n > 1.
func (c *Call) again(id string) *Call {
	return &Call{ID: id, want: c.want, node: c.node, Sequence: proto.CloneOf(c.Sequence)}
}

// followStore starts the watches of the node's catalogue of adapters and of its pinned prefixes.
func (n *Node) followStore() {
	n.catalogue = catalogue.New()
	n.prefixes = backend.Prefixes{Pins: &stored.Pins{}, Secret: &stored.Secret{}, Catalogue: n.catalogue,
		Log: n.cfg.Log}
	access := n.cfg.store
	access.client = n.client
	for _, w := range []stored.Watch{stored.Adapters(&access, n.catalogue.Apply), n.prefixes.Pins.Watch(&access)} {
		f := stored.NewFollowers(n.runtime, n.cfg.Log)
		f.Start(w, func() {})
		n.followers = append(n.followers, f)
	}
}

// abandon ends what still runs outside of the actors of a node that has crashed, each part in a task
// of its own, since the timers that two goroutines start at a time would have no order.
func (n *Node) abandon() {
	n.runtime.Go(func() { close(n.faults.gone) })
	for _, f := range n.followers {
		n.runtime.Go(f.Stop)
	}
}
