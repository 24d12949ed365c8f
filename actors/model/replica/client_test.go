package replica_test

import (
	"fmt"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/session"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// testClient is a client with its own session.
type testClient struct {
	id      string
	session *actor.PID

	mu       sync.Mutex
	output   []uint32
	logprobs []*messages.TokenLogprobs
	outcome  string
	cached   uint32 // tokens of the prompt
}

func (c *testClient) Output() []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.output)
}
func (c *testClient) Deliver(tokens []uint32, logprobs []*messages.TokenLogprobs, cached uint32,
	finish messages.FinishReason) {
	c.mu.Lock()
	c.output, c.logprobs = append(c.output, tokens...), append(c.logprobs, logprobs...)
	c.cached = max(c.cached, cached)
	c.mu.Unlock()
	if finish != messages.FinishReason_FINISH_REASON_UNSPECIFIED {
		c.end(finish.String())
	}
}
func (c *testClient) Fail(r *messages.Refused) { c.end(r.String()) }
func (*testClient) Left() bool                 { return false }

func (c *testClient) end(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcome += how
}

func (c *testClient) done() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.outcome != "" }

// open opens a session for a sequence. Its client records the output.
func (c *cluster) open(seq *messages.SequenceSpec) *testClient {
	c.requests++
	client := &testClient{id: fmt.Sprint("r", c.requests)}
	client.session = testkit.Spawn(c.t, c.sys, "session-"+client.id, supervise.Strategy(nil),
		session.Props(session.Config{
			RequestID: client.id, Sequence: seq, Client: client, Router: c.router.PID,
		}))
	c.settle()
	return client
}

// greedy and sampled return sequences with different sampling. Prompts with different salts differ
// from the first token on.
func greedy(salt, prompt, tokens uint32) *messages.SequenceSpec {
	s := &messages.SequenceSpec{
		Model: "m", Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD,
		Sampling: &messages.SamplingParams{MaxTokens: tokens, IgnoreEos: true, Logprobs: true, TopLogprobs: 2},
	}
	for i := range prompt {
		s.Prompt = append(s.Prompt, 3+(salt*37+i*13)%1000)
	}
	return s
}

// salted is greedy with the cache salt of a tenant.
func salted(salt, prompt, tokens uint32) *messages.SequenceSpec {
	s := greedy(salt, prompt, tokens)
	s.CacheSalt = []byte("a tenant's salt")
	return s
}

func sampled(salt, prompt, tokens uint32) *messages.SequenceSpec {
	s := greedy(salt, prompt, tokens)
	s.Sampling = &messages.SamplingParams{
		MaxTokens: tokens, IgnoreEos: true, Logprobs: true, TopLogprobs: 3, Temperature: 0.9, TopP: 0.95,
		Seed:              uint64(salt) + 7,
		RepetitionPenalty: 1.2, FrequencyPenalty: 0.1, MinTokens: 3,
	}
	return s
}
