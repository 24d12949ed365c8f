package dst

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"troupe/messages"
)

// Call is a request and the output that its client has received. It implements session.Client and
// outlives its session. It checks tokens as they arrive.
type Call struct {
	ID       string
	Sequence *messages.SequenceSpec

	node       string // name of the node that the client is connected to
	started    *Node  // that node; nil: the call is not open yet
	cancelled  bool   // the client has disconnected
	turnedAway bool   // the node was not serving when the call was made

	mu      sync.Mutex
	want    []uint32
	files   int    // of the model, whose output is wanted; see revisionOf
	adapter string // hash of the adapter
	// newest returns the newest files of the model.
	newest  func() int
	output  []uint32
	end     time.Time // zero while the call is open
	finish  messages.FinishReason
	refused *messages.Refused
	wrong   []string // violations that were found
	timing
}

// NewCall returns a call of a model.
func NewCall(id, model string, prompt []uint32, tokens int) *Call {
	return &Call{ID: id, want: Output(model, prompt, tokens, ""), Sequence: &messages.SequenceSpec{
		Model: model, Prompt: prompt, Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD,
		Sampling: &messages.SamplingParams{MaxTokens: uint32(tokens)}}}
}

// expect computes the expected output again, with the adapter of the given hash.
func (c *Call) expect(adapter string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adapter = adapter
	c.want = Output(revisionOf(c.Sequence.GetModel(), c.files), c.Sequence.GetPrompt(), len(c.want), adapter)
}

// Output implements session.Client.
func (c *Call) Output() []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output[:len(c.output):len(c.output)]
}

// Deliver implements session.Client.
func (c *Call) Deliver(tokens []uint32, _ []*messages.TokenLogprobs, _ uint32, finish messages.FinishReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		c.wrong = append(c.wrong, fmt.Sprintf("%d tokens after the end", len(tokens)))
		return
	}
	c.arrived()
	for _, t := range tokens {
		c.output = append(c.output, t)
		if !c.matches() {
			c.wrong = append(c.wrong, fmt.Sprintf("token %d is %d", len(c.output)-1, t))
		}
	}
	if c.finish = finish; c.ended() {
		c.end = time.Now()
	}
	if c.ended() && len(c.output) != len(c.want) {
		c.wrong = append(c.wrong, fmt.Sprintf("ended after %d of %d tokens", len(c.output), len(c.want)))
	}
}

// Fail implements session.Client.
func (c *Call) Fail(refused *messages.Refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		c.wrong = append(c.wrong, "refused after the end: "+refused.GetDetail())
		return
	}
	c.refused, c.end = refused, time.Now()
	see(refused)
}

// matches reports whether all tokens so far are those of one revision of the model, and lets the output of this
// one be wanted. The caller must hold c.mu.
func (c *Call) matches() bool {
	if i := len(c.output) - 1; i < len(c.want) && c.want[i] == c.output[i] {
		return true
	}
	for files := c.newest(); files >= 0; files-- {
		want := Output(revisionOf(c.Sequence.GetModel(), files), c.Sequence.GetPrompt(), len(c.want), c.adapter)
		if len(c.output) <= len(want) && slices.Equal(want[:len(c.output)], c.output) {
			c.files, c.want = files, want
			return true
		}
	}
	return false
}

func (c *Call) ended() bool {
	return c.finish != messages.FinishReason_FINISH_REASON_UNSPECIFIED || c.refused != nil
}

// cancel records that the client has disconnected. What it receives afterwards is ignored.
func (c *Call) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = true
}

// Left implements session.Client.
func (c *Call) Left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// Ended reports whether the call has ended.
func (c *Call) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended()
}

// Result returns the refusal, or nil, and the violations that were found.
func (c *Call) Result() (refused *messages.Refused, wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused, c.wrong
}
