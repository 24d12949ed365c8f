package cost

// AddPrompt returns the step with a part of a prompt: tokens that are computed, after others of the
// same sequence that were computed before.
func (s Step) AddPrompt(tokens, before int) Step {
	s.Prompt += tokens
	s.Context += int64(before)
	return s
}

// AddDecode returns the step with one token of a sequence that has others before it.
func (s Step) AddDecode(before int) Step {
	s.Decode++
	s.Context += int64(before)
	return s
}

// pairs estimates the pairs of a prompt token and a token that it attends to; see the package
// comment.
func (s Step) pairs() float64 {
	prompt, before := float64(s.Prompt), float64(s.Context)
	if s.Decode > 0 {
		before /= 2 * float64(s.Decode+1)
	}
	return prompt * (prompt/2 + before)
}
