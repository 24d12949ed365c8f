package batch

import (
	"fmt"
	"time"

	"troupe/core/kv"
	"troupe/core/lora"
)

// Class orders sequences that compete: higher is served first.
type Class int

// Classes.
const (
	Batch Class = iota + 1
	Standard
	Interactive
)

// Limits bound a replica.
type Limits struct {
	MaxSequences  int // running at once
	MaxWaiting    int // beyond those
	StepTokens    int // token budget of a step; at least MaxSequences, so that all can decode
	ContextTokens int // longest sequence, prompt and output; at most what the pool holds
}

// Request is a sequence to generate.
type Request struct {
	ID        string
	Class     Class
	Arrived   time.Time
	Root      kv.Hash  // of model, adapter and salt
	Adapter   string   // "": none
	Prompt    []uint32 // at least one token
	Output    []uint32 // generated already, in an earlier life
	MaxOutput int      // tokens, those of Output included
	MinOutput int      // Stops count only after so many
	Stops     []uint32 // tokens that end the sequence
	Client    string   // who asked; clients share a class by their weights
	Weight    float64  // of the client; 0 counts as 1
}

// Reason says why a request was refused.
type Reason int

// Reasons.
const (
	QueueFull Reason = iota + 1
	TooLong
	Duplicate
	Invalid
	// Finished: Output is complete already; nothing is left to generate.
	Finished
	// NoRoom: no place among the running sequences, or too few blocks, for one that moves here.
	NoRoom
	// AdapterLoading: the adapter of a sequence that moves here is not on the device yet; ask again.
	AdapterLoading
	// NoAdapter: it can not be had.
	NoAdapter
)

// Refusal is why a request was not taken.
type Refusal struct {
	Reason Reason
	Detail string
}

// State of a sequence.
type State int

// States.
const (
	Waiting State = iota + 1
	Running
	Preempted // waiting again, after it ran
)

func (s State) String() string { return [...]string{"", "waiting", "running", "preempted"}[s] }

// Finish says why a sequence ended.
type Finish int

// Finishes.
const (
	None   Finish = iota
	Stop          // a stop token
	Length        // MaxOutput, or the end of the context
)

// Step is what the engine computes at once.
type Step struct {
	Entries   []Entry // those of one adapter side by side
	Preempted []Preemption
	Rejected  []lora.Rejected // and forgotten
}

// Entry is one sequence's share of a step. Its slices are never changed afterwards.
type Entry struct {
	ID       string
	Tokens   []uint32 // to compute
	Position int      // of Tokens[0]
	Blocks   []int32  // block table of positions 0 to Position+len(Tokens)-1, at least
	Sample   bool     // the last of Tokens is the last there is: choose the next
	Adapter  string   // "": none
	Arriving bool     // Blocks before Position are still being filled; see Begin
	sequence *sequence
}

// Preemption is a running sequence that had to give way.
type Preemption struct {
	ID  string
	Why string
}

// Emission is a token that was chosen.
type Emission struct {
	ID     string
	Index  int // in the output, from 0
	Token  uint32
	Finish Finish // with Stop, Token is the stop token and not part of the output
	Cached int    // prompt tokens that were found in blocks when the sequence was first admitted
}

// sequence is a request on its way.
type sequence struct {
	Request
	account   *account
	arrival   uint64
	state     State
	tokens    []uint32 // prompt and output; append-only
	hashes    []kv.Hash
	table     []int32 // append-only while it runs
	computed  int     // tokens whose keys and values are in blocks
	committed int     // leading blocks that were offered for sharing
	parked    int     // tokens that were computed when it gave way
	cached    int
	admitted  bool      // at least once
	held      bool      // in no list, until Resume
	arriving  bool      // it runs on blocks that are still being filled
	entered   bool      // it is in the step in the making
	wanting   time.Time // since when it waits for its adapter; zero: it does not
}

func (s *sequence) output() []uint32 { return s.tokens[len(s.Prompt):] }

// left is how many tokens are still to compute before one can be chosen.
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

// before is the order of lists: that of service where there is one client.
func (s *sequence) before(t *sequence) bool {
	if s.Class != t.Class {
		return s.Class > t.Class
	}
	return s.arrival < t.arrival
}

func (r Request) check(l Limits) *Refusal {
	switch {
	case r.ID == "" || len(r.Prompt) == 0 || r.MaxOutput < 1:
		return &Refusal{Invalid, "a request needs an id, at least one prompt token and room for one output token"}
	case len(r.Prompt) >= l.ContextTokens:
		return &Refusal{TooLong, fmt.Sprintf("the prompt has %d tokens; this replica takes %d, one of them output; shorten the prompt",
			len(r.Prompt), l.ContextTokens)}
	case len(r.Output) >= r.MaxOutput || len(r.Prompt)+len(r.Output) >= l.ContextTokens:
		return &Refusal{Finished, "the output is complete"}
	}
	return nil
}
