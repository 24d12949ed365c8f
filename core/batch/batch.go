package batch

import (
	"fmt"
	"time"

	"troupe/core/kv"
	"troupe/core/lora"
)

// Class is the priority class of a sequence. Higher classes are served first.
type Class int

// Classes.
const (
	Batch Class = iota + 1
	Standard
	Interactive
)

// Limits are the limits of a replica.
type Limits struct {
	MaxSequences  int // running at once
	MaxWaiting    int // in addition to the running ones
	StepTokens    int // token budget of a step; at least MaxSequences, so that all can decode
	ContextTokens int // longest sequence, prompt and output; at most what the pool holds
}

// Request is a sequence to generate.
type Request struct {
	ID        string
	Class     Class
	Arrived   time.Time
	Waited    time.Duration // before it arrived here, since it was first submitted
	Root      kv.Hash       // of model, adapter and salt
	Adapter   string        // "": none
	Prompt    []uint32      // at least one token
	Output    []uint32      // generated earlier, by this or another replica
	MaxOutput int           // tokens, including those of Output
	MinOutput int           // Stops count only after so many tokens
	Stops     []uint32      // tokens that end the sequence
	Client    string        // clients share a class by their weights
	Weight    float64       // of the client; 0 counts as 1
	Deadline  time.Time     // for the whole output; zero: none
}

// Reason is the reason for a refusal.
type Reason int

// Reasons.
const (
	QueueFull Reason = iota + 1
	TooLong
	Duplicate
	Invalid
	// Finished means that Output is already complete.
	Finished
	// NoRoom means that no place or too few blocks are free for a sequence that migrates here.
	NoRoom
	// AdapterLoading means that the adapter of a migrating sequence is still loading; call Reserve
	// again.
	AdapterLoading
	// NoAdapter means that the adapter is not available.
	NoAdapter
)

// Refusal is the reason why a request was refused.
type Refusal struct {
	Reason Reason
	Detail string
}

// State is the state of a sequence.
type State int

// States.
const (
	Waiting State = iota + 1
	Running
	Preempted // waiting again after it ran
)

func (s State) String() string { return [...]string{"", "waiting", "running", "preempted"}[s] }

// Finish is the reason why a sequence ended.
type Finish int

// Finishes.
const (
	None   Finish = iota
	Stop          // a stop token was generated
	Length        // MaxOutput or the end of the context was reached
)

// Step is one run of the engine over a batch.
type Step struct {
	Entries   []Entry // grouped by adapter
	Preempted []Preemption
	Rejected  []lora.Rejected // and dropped
}

// Entry is one sequence's share of a step. Its slices never change afterwards.
type Entry struct {
	ID        string
	Tokens    []uint32 // to compute
	Position  int      // of Tokens[0]
	Blocks    []int32  // block table; covers positions 0 to Position+len(Tokens)-1
	Sample    bool     // Tokens ends with the sequence's last token, so the next one is sampled
	Adapter   string   // "": none
	Restoring bool     // Blocks before Position are still being filled; see StartRestoring
	sequence  *sequence
}

// Preemption is a running sequence that was preempted.
type Preemption struct {
	ID  string
	Why string
}

// Emission is a generated token.
type Emission struct {
	ID     string
	Index  int // in the output, from 0
	Token  uint32
	Finish Finish // if Stop, Token is the stop token and not part of the output
	Cached int    // prompt tokens found in cached blocks at the first admission; 0 if that was elsewhere
}

// sequence is a request known to the scheduler.
type sequence struct {
	Request
	account          *account
	arrival          uint64
	state            State
	tokens           []uint32 // prompt and output; append-only
	hashes           []kv.Hash
	table            []int32 // append-only while the sequence runs
	computed         int     // tokens whose keys and values are in blocks
	committed        int     // leading blocks offered for sharing
	savedTokens      int     // tokens that were computed when it was preempted
	cached           int
	admitted         bool      // at least once
	held             bool      // in neither list until Resume
	restoring        bool      // runs on blocks that are still being filled
	inStep           bool      // has an entry in the step being planned
	adapterWaitSince time.Time // since when it waits for its adapter; zero: it does not
}

func (s *sequence) output() []uint32 { return s.tokens[len(s.Prompt):] }

// admit records that the sequence has been admitted. If it has output by then, another replica or an earlier
// incarnation had admitted it, and what it finds may be its own blocks.
func (s *sequence) admit() {
	if !s.admitted && len(s.output()) == 0 {
		s.cached = min(s.computed, len(s.Prompt))
	}
	s.admitted = true
}

// left returns the number of tokens to compute before the next one can be chosen.
func (s *sequence) left() int { return len(s.tokens) - s.computed }

// hash returns the hash of full block i.
func (s *sequence) hash(i, blockTokens int) kv.Hash {
	for len(s.hashes) <= i {
		parent := s.Root
		if n := len(s.hashes); n > 0 {
			parent = s.hashes[n-1]
		}
		at := len(s.hashes) * blockTokens
		s.hashes = append(s.hashes, parent.Next(s.tokens[at:at+blockTokens]))
	}
	return s.hashes[i]
}

// before orders the lists: by class and age, the order of service with a single client.
func (s *sequence) before(t *sequence) bool {
	if s.Class != t.Class {
		return s.Class > t.Class
	}
	return s.older(t)
}

// older orders sequences by the time since they were first submitted, here or elsewhere.
func (s *sequence) older(t *sequence) bool {
	a, b := s.Arrived.Add(-s.Waited), t.Arrived.Add(-t.Waited)
	return a.Before(b) || a.Equal(b) && s.arrival < t.arrival
}

func (r Request) check(l Limits) *Refusal {
	switch {
	case r.ID == "" || len(r.Prompt) == 0 || r.MaxOutput < 1:
		return &Refusal{Invalid, "a request needs an id, at least one prompt token and room for one output token"}
	case len(r.Prompt) >= l.ContextTokens:
		return &Refusal{TooLong, fmt.Sprintf(
			"the prompt has %d tokens and the context %d, including output; shorten the prompt",
			len(r.Prompt), l.ContextTokens)}
	case len(r.Output) >= r.MaxOutput || len(r.Prompt)+len(r.Output) >= l.ContextTokens:
		return &Refusal{Finished, "the output is complete"}
	}
	return nil
}
