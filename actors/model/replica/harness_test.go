package replica_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica"
	"troupe/actors/model/stepper"
	"troupe/actors/supervise"
	"troupe/core/sample"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// positionEngine is an engine whose next token is the position. It can crash on demand.
type positionEngine struct {
	mu         sync.Mutex
	delay      time.Duration
	crash      func(step int, batch []engine.Sequence) error
	nan        func(s engine.Sequence) bool // reports whether the logits are NaN; nil: never
	steps      int
	open       int
	overlapped bool // two engines were open at the same time
}

func (c *positionEngine) Open() (engine.Engine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.overlapped = c.overlapped || c.open > 1
	return c, nil
}

// count returns the number of steps.
func (c *positionEngine) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps
}

func (c *positionEngine) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	return nil
}

func (c *positionEngine) Step(_ context.Context, batch []engine.Sequence) ([]sample.Token, error) {
	c.mu.Lock()
	c.steps++
	n, crash := c.steps, c.crash
	c.mu.Unlock()
	time.Sleep(c.delay)
	if crash != nil {
		if err := crash(n, batch); err != nil {
			panic(err)
		}
	}
	var tokens []sample.Token
	for _, s := range batch {
		if s.Sample {
			tokens = append(tokens, sample.Token{ID: uint32(s.Position + len(s.Tokens)),
				NotFinite: c.nan != nil && c.nan(s)})
		}
	}
	return tokens, nil
}

// harness is a replica. The test acts as all actors that it communicates with.
type harness struct {
	t       *testing.T
	root    *actor.RootContext
	engine  *positionEngine
	gpu     *testkit.Peer
	hbm     *testkit.Peer
	deploy  *testkit.Peer
	client  *testkit.Peer
	replica *actor.PID
	blocks  map[uint32][]byte // blocks that the HBM tier knows
	turns   func(*messages.RequestTurn) *messages.TurnGranted
}

func newHarness(t *testing.T, c *positionEngine, load func(int) *messages.LoadModelResult,
	mw ...actor.ReceiverMiddleware) *harness {
	sys := testkit.System(t)
	s := &harness{t: t, root: sys.Root, engine: c, blocks: map[uint32][]byte{}, turns: openTurn}
	loads := 0
	s.gpu = testkit.NewPeer(t, sys, "gpu", func(m proto.Message) proto.Message {
		switch m := m.(type) {
		case *messages.RequestTurn:
			if s.turns == nil {
				return nil
			}
			return s.turns(m)
		case *messages.LoadModel:
		default:
			return nil
		}
		loads++
		return messageOrNil(load(loads))
	})
	s.hbm = testkit.NewPeer(t, sys, "hbm", s.answerHBM)
	s.deploy = testkit.NewPeer(t, sys, "deployment", nil)
	s.client = testkit.NewPeer(t, sys, "client", nil)
	s.replica = testkit.Spawn(t, sys, "m-0", supervise.Strategy(nil), replica.Props(replica.Config{
		Spec: &messages.ReplicaSpec{Name: "m-0", Model: "m", Gpu: "gpu-0", BlockTokens: 4, MaxSequences: 4,
			MaxWaiting: 2, StepTokens: 32},
		GPU: s.gpu.PID, HBM: s.hbm.PID, Deployment: s.deploy.PID, Strategy: supervise.Strategy(nil),
		Engine: func(string, func(uint64) (engine.Gate, error)) *actor.Props {
			return stepper.Props(stepper.Config{Open: c.Open})
		},
	}), mw...)
	synctest.Wait()
	return s
}

// openTurn grants a turn until it is recalled, as to a replica that has the device to itself.
func openTurn(m *messages.RequestTurn) *messages.TurnGranted {
	return &messages.TurnGranted{Replica: m.GetReplica(), Started: m.GetStarted(), Number: 1, Open: true}
}

// messageOrNil converts a nil result to a nil message.
func messageOrNil(r *messages.LoadModelResult) proto.Message {
	if r == nil {
		return nil
	}
	return r
}

// answerHBM records blocks as the HBM actor does.
func (s *harness) answerHBM(m proto.Message) proto.Message {
	switch m := m.(type) {
	case *messages.BlocksChanged:
		for _, b := range m.GetEvicted() {
			delete(s.blocks, b)
		}
		for _, b := range m.GetCommitted() {
			s.blocks[b.GetIndex()] = b.GetHash()
		}
	case *messages.AdoptBlocks:
		adopted := &messages.BlocksAdopted{Lease: m.GetLease()}
		for i, h := range s.blocks {
			adopted.Resident = append(adopted.Resident, &messages.Block{Index: i, Hash: h})
		}
		return &messages.AdoptBlocksResult{Outcome: &messages.AdoptBlocksResult_Adopted{Adopted: adopted}}
	}
	return nil
}

func loaded(int) *messages.LoadModelResult {
	return &messages.LoadModelResult{Outcome: &messages.LoadModelResult_Loaded{Loaded: &messages.ModelLoaded{
		Lease: "m-0", KvBlocks: 32, KvBlockBytes: 64, ContextTokens: 64, Vocab: 100, Eos: []uint32{99},
	}}}
}

func spec(prompt, tokens uint32) *messages.SequenceSpec {
	s := &messages.SequenceSpec{Model: "m", Sampling: &messages.SamplingParams{MaxTokens: tokens},
		Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD}
	for i := range prompt {
		s.Prompt = append(s.Prompt, i)
	}
	return s
}

func (s *harness) submit(id string, seq *messages.SequenceSpec, output ...uint32) {
	s.client.Send(s.replica, &messages.SubmitSequence{RequestId: id, Sequence: seq, Output: output})
	synctest.Wait()
}

// output returns the tokens that a client received for a request, and whether the request finished.
// Repeated tokens must be equal.
func (s *harness) output(id string) (tokens []uint32, done bool) {
	s.t.Helper()
	for _, m := range testkit.Got[*messages.TokensEmitted](s.client) {
		if m.GetRequestId() != id {
			continue
		}
		for i, token := range m.GetTokens() {
			switch at := int(m.GetFirstIndex()) + i; {
			case at < len(tokens) && tokens[at] != token || at > len(tokens):
				s.t.Fatalf("%s: token %d is %d after %v", id, at, token, tokens)
			case at == len(tokens):
				tokens = append(tokens, token)
			}
		}
		done = done || m.GetFinish() != 0
	}
	return tokens, done
}

// checkServed checks that a request received the positions after its prompt.
func (s *harness) checkServed(id string, prompt, n uint32) {
	s.t.Helper()
	tokens, done := s.output(id)
	var want []uint32
	for i := range n {
		want = append(want, prompt+i)
	}
	if !slices.Equal(tokens, want) || !done {
		s.t.Errorf("%s: got %v, done %v, want %v", id, tokens, done, want)
	}
}

func (s *harness) states() (all []messages.ReplicaState) {
	for _, c := range testkit.Got[*messages.ReplicaChanged](s.deploy) {
		if n := len(all); n == 0 || all[n-1] != c.GetStatus().GetState() {
			all = append(all, c.GetStatus().GetState())
		}
	}
	return all
}
