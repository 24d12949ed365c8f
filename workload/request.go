package workload

import "time"

// Request is one request of a trace or of a generator.
type Request struct {
	At      time.Duration // since the beginning of the trace
	Model   string
	Adapter string // "" for the base model
	Client  string // "" if the trace does not say
	Prompt  int    // tokens
	Output  int    // tokens
	// Prefix identifies the tokens of the prompt by block: two requests whose first n hashes are equal have
	// the same first n·PrefixBlock tokens. It is empty if the trace does not say.
	Prefix      []uint64
	PrefixBlock int // tokens per hash of Prefix
}
