package dst

import (
	"fmt"
	"math/rand/v2"
	"time"

	"troupe/messages"
	"troupe/node/query"
)

// Operator actions that concern prefixes. Count selects the request with whose prompt they deal.
const (
	PinPrefix     FaultKind = "pin-prefix"     // an operator pins a prefix, and unpins it after For
	RestorePrefix FaultKind = "restore-prefix" // an operator restores a prefix on Node
	FlushTier     FaultKind = "flush-tier"     // an operator drops the unused blocks of Tier of Node
)

// drawPrefixes fills in an operator action that concerns prefixes.
func (f *Fault) drawPrefixes(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case PinPrefix:
		f.Count, f.For = rng.IntN(1000), span(time.Second, 15*time.Second)
	case RestorePrefix:
		f.Count = rng.IntN(1000)
	case FlushTier:
		f.Tier = []string{"dram", "nvme"}[rng.IntN(2)]
	}
}

// injectPrefixes performs an operator action that concerns prefixes, as node/backend does.
func (c *cluster) injectPrefixes(n *Node, f Fault, later func(func())) {
	switch f.Kind {
	case PinPrefix:
		name := fmt.Sprintf("pin-%v-%d", f.At, f.Count)
		seq := c.calls[f.Count%len(c.calls)].Sequence
		blocks := len(seq.GetPrompt()) / blockTokens
		if blocks == 0 {
			return
		}
		c.operator.pin(&messages.PinnedPrefix{Name: name, Model: seq.GetModel(), Adapter: seq.GetAdapter(),
			Tokens: seq.GetPrompt()[:blocks*blockTokens], Blocks: uint32(blocks)})
		later(func() { c.operator.unpin(name) })
	case RestorePrefix:
		seq := c.calls[f.Count%len(c.calls)].Sequence
		adapter, err := n.prefixes.Revision(seq.GetModel(), seq.GetAdapter())
		if err != nil {
			return // the adapter is deleted
		}
		c.command(n, seq.GetModel(), &messages.RestoreBlocks{RequestId: n.runtime.ID(), Adapter: adapter,
			Tokens: seq.GetPrompt(), CacheSalt: seq.GetCacheSalt()})
	case FlushTier:
		n.system.Root.Send(n.pid(query.Tier(f.Tier)), &messages.FlushBlocks{RequestId: n.runtime.ID()})
	}
}
