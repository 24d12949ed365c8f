package cost

// Step is what one step of an engine computes. It has either prompt tokens, sequences that decode, or both.
type Step struct {
	Prompt  int   // prompt tokens computed, of all sequences
	Decode  int   // sequences that decode one token each
	Context int64 // tokens of KV cache that are read, of all sequences
}
