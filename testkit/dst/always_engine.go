package dst

import (
	"slices"

	"troupe/core/verify"
	"troupe/engine"
)

// step checks a step: a block that a sequence writes to belongs to no other sequence of the batch,
// and the blocks of a sequence differ.
func (c *checks) step(path string, blockTokens int, batch []engine.Sequence) {
	if c == nil {
		return
	}
	readers := make(map[int32]int) // sequences of the batch that have the block
	for _, s := range batch {
		own := make(map[int32]bool)
		for _, b := range s.Blocks[:(s.Position+len(s.Tokens)+blockTokens-1)/blockTokens] {
			if own[b] {
				c.fail("%s: block %d is twice in the table %v of a sequence", path, b, s.Blocks)
			}
			own[b] = true
			readers[b]++
		}
	}
	computed := 0
	for _, s := range batch {
		if !isCanary(s) {
			computed += len(s.Tokens)
		}
		for i := s.Position / blockTokens; i <= (s.Position+len(s.Tokens)-1)/blockTokens; i++ {
			if readers[s.Blocks[i]] > 1 {
				c.fail("%s: two sequences have block %d, and one writes to it", path, s.Blocks[i])
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.computed += computed
}

// isCanary reports whether a sequence is the canary of an idle replica. Its prompt begins with that of a
// record, or is 1, 2, and so on. No prompt of a client begins with either.
func isCanary(s engine.Sequence) bool {
	info := InfoOf("")
	for _, prompt := range [][]uint32{verify.Prompt(info.Vocab, info.ContextTokens, info.EOS), {1, 2}} {
		if n := len(prompt); s.Position == 0 && len(s.Tokens) >= n && slices.Equal(s.Tokens[:n], prompt) {
			return true
		}
	}
	return false
}
