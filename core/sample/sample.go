package sample

// Params say how the next token is chosen. The zero value is greedy decoding.
type Params struct {
	Temperature       float32 // 0 is greedy
	TopP              float32 // 0 or 1: off
	TopK              int     // 0: off
	MinP              float32 // 0: off
	RepetitionPenalty float32 // 0 or 1: off; divides positive, multiplies negative logits of seen tokens
	PresencePenalty   float32 // subtracted once from every token in the output
	FrequencyPenalty  float32 // subtracted per occurrence in the output
	LogitBias         map[uint32]float32
	Seed              uint64
	// Logprobs asks for the log-probability of the chosen token, and of the TopLogprobs likeliest.
	Logprobs    bool
	TopLogprobs int
	// Banned tokens are never chosen: end-of-sequence before min_tokens, ignore_eos.
	Banned []uint32
	// Allowed tokens are the only ones that are chosen; nil: all.
	Allowed []uint32
}

// Token is a chosen token.
type Token struct {
	ID      uint32
	Logprob float32 // natural log, of the distribution before temperature and filters; 0 unless asked for
	Top     []Logprob
	// NotFinite reports that a logit is NaN or infinite, so that there is no token.
	NotFinite bool
}

// Logprob is one alternative.
type Logprob struct {
	ID      uint32
	Logprob float32
}
