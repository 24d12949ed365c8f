package dst

// prefixes is the number of beginnings that the prompts of a busy run share. Their blocks do not fit
// into HBM together.
const prefixes = 8

// longPrompt returns a prompt that starts with up to 9 blocks of one of a few prefixes.
func (c *cluster) longPrompt() (p []uint32) {
	which := uint32(c.rng.IntN(prefixes))
	for i := range uint32(16 * (3 + c.rng.IntN(7))) {
		p = append(p, 1+(which*131+i*7)%(vocab-1))
	}
	for range 1 + c.rng.IntN(30) {
		p = append(p, uint32(1+c.rng.IntN(vocab-1)))
	}
	return p
}
