package sample

// Params are the sampling parameters. The zero value is greedy decoding.
type Params struct {
	Temperature       float32 // 0 is greedy
	TopP              float32 // 0 or 1: off
	TopK              int     // 0: off
	MinP              float32 // 0: off
	RepetitionPenalty float32 // 0 or 1: off; divides positive logits of seen tokens and multiplies negative ones
	PresencePenalty   float32 // subtracted once from every token in the output
	FrequencyPenalty  float32 // subtracted per occurrence in the output
	LogitBias         map[uint32]float32
	Seed              uint64
	// Logprobs requests the log-probabilities of the chosen token and of the TopLogprobs likeliest.
	Logprobs    bool
	TopLogprobs int
	// Banned tokens are never chosen, such as end-of-sequence before min_tokens or with ignore_eos.
	Banned []uint32
	// Allowed tokens are the only ones that are chosen; nil: all.
	Allowed []uint32
}

// Token is a chosen token.
type Token struct {
	ID      uint32
	Logprob float32 // natural logarithm, before temperature and filters; 0 unless requested
	Top     []Logprob
	// NotFinite reports that a logit is NaN or infinite, so that ID is not valid.
	NotFinite bool
}

// Logprob is the log-probability of one alternative token.
type Logprob struct {
	ID      uint32
	Logprob float32
}
