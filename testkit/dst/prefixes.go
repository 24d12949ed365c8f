package dst

import (
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
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
