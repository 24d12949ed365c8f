package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Call is one sequence of a request. A session delivers its output, and the request's goroutine
// reads it. It implements session.Client.
type Call struct {
	ID       string
	Sequence *messages.SequenceSpec
	// Placed is when the first calls of its request were opened, if others have had output since.
	Placed time.Time
	wake   chan<- struct{} // capacity 1; receives after every change

	mu       sync.Mutex
	output   []uint32
	logprobs []*messages.TokenLogprobs
	cached   uint32
	finish   messages.FinishReason
	refused  *messages.Refused
	left     bool
}

// Output implements session.Client.
func (c *Call) Output() []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output[:len(c.output):len(c.output)]
}

// Deliver implements session.Client.
func (c *Call) Deliver(
	tokens []uint32, logprobs []*messages.TokenLogprobs, cached uint32, finish messages.FinishReason,
) {
	c.update(func() {
		c.output = append(c.output, tokens...)
		c.logprobs = append(c.logprobs, logprobs...)
		c.cached, c.finish = max(c.cached, cached), finish
	})
}

// Fail implements session.Client.
func (c *Call) Fail(refused *messages.Refused) { c.update(func() { c.refused = refused }) }

// Left implements session.Client.
func (c *Call) Left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// leave records that the request takes no more output.
func (c *Call) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
}

// update applies a change unless the call has ended, and wakes the request's goroutine.
func (c *Call) update(apply func()) {
	c.mu.Lock()
	if c.finish == messages.FinishReason_FINISH_REASON_UNSPECIFIED && c.refused == nil {
		apply()
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// progress is the output of a call after some token. The call has ended if finish or refused is
// set.
type progress struct {
	tokens   []uint32
	logprobs []*messages.TokenLogprobs
	cached   uint32
	finish   messages.FinishReason
	refused  *messages.Refused
}

func (p progress) ended() bool {
	return p.finish != messages.FinishReason_FINISH_REASON_UNSPECIFIED || p.refused != nil
}

// since returns the output after the first n tokens.
func (c *Call) since(n int) progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := progress{
		tokens:  c.output[n:len(c.output):len(c.output)],
		cached:  c.cached,
		finish:  c.finish,
		refused: c.refused,
	}
	if len(c.logprobs) > n {
		p.logprobs = c.logprobs[n:len(c.logprobs):len(c.logprobs)]
	}
	return p
}

// newID returns a random identifier of 24 hexadecimal digits.
func newID(rt supervise.Runtime) string {
	var b [12]byte
	binary.LittleEndian.PutUint64(b[:], rt.Uint64())
	binary.LittleEndian.PutUint32(b[8:], uint32(rt.Uint64()))
	return hex.EncodeToString(b[:])
}
