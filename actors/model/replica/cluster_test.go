package replica_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/adapter"
	"troupe/actors/model/replica"
	"troupe/actors/model/session"
	"troupe/actors/supervise"
	"troupe/core/sample"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/messages"
	"troupe/testkit"
)

const stepTime = 10 * time.Millisecond

// bulk is a data plane from memory to memory. What each transfer is for is known by its token.
type bulk struct {
	chunkTime time.Duration
	mu        sync.Mutex
	open      map[string]*transfer
	opened    int
	sent      int
	fail      func(n int) error // what happens to chunk n, counted over all transfers; it may block
	damage    func(n int, chunk []byte)
}

type transfer struct {
	size   int
	chunks uint32
	put    func(uint32, []byte) error
}

func (b *bulk) Expect(size int, chunks uint32, put func(uint32, []byte) error) (*messages.BulkTicket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	name := fmt.Sprint("t", b.opened)
	b.open[name] = &transfer{size, chunks, put}
	return &messages.BulkTicket{Transfer: name, Token: []byte(name), Bytes: uint64(size) * uint64(chunks)}, nil
}

func (b *bulk) ExpectSealed(size int, chunks uint32, seal func(uint32, int) hash.Hash64, put func(uint32, []byte) error) (*messages.BulkTicket, error) {
	return b.Expect(size, chunks, func(index uint32, sealed []byte) error {
		end := len(sealed) - 8
		sum := seal(index, end)
		if _, _ = sum.Write(sealed[:end]); sum.Sum64() != binary.BigEndian.Uint64(sealed[end:]) {
			return errors.New("the seal is wrong")
		}
		return put(index, sealed)
	})
}

func (b *bulk) Drop(t *messages.BulkTicket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, t.GetTransfer())
}

func (b *bulk) Send(ctx context.Context, to *messages.BulkTicket, indices []uint32, read func(uint32, []byte) (int, error)) error {
	for _, i := range indices {
		b.mu.Lock()
		t, fail := b.open[string(to.GetToken())], b.fail
		b.sent++
		n := b.sent
		b.mu.Unlock()
		if t == nil || i >= t.chunks {
			return errors.New("no such transfer")
		}
		select {
		case <-time.After(b.chunkTime):
		case <-ctx.Done():
			return ctx.Err()
		}
		if fail != nil {
			if err := fail(n); err != nil {
				if errors.Is(err, errStall) {
					<-ctx.Done()
				}
				return err
			}
		}
		chunk := make([]byte, t.size)
		if _, err := read(i, chunk); err != nil {
			return err
		}
		if b.damage != nil {
			b.damage(n, chunk)
		}
		if err := t.put(i, chunk); err != nil {
			return err
		}
	}
	return nil
}

var errStall = errors.New("stalled")

// slow is an engine whose steps take time in a synctest bubble.
type slow struct {
	engine.Engine
	time   time.Duration
	before func(batch []engine.Sequence) // nil: nothing happens
}

func (s slow) Step(ctx context.Context, batch []engine.Sequence) ([]sample.Token, error) {
	time.Sleep(s.time)
	if s.before != nil {
		s.before(batch)
	}
	return s.Engine.Step(ctx, batch)
}

// node is a replica with its device.
type node struct {
	*actor.PID
	name  string
	gone  bool
	gpu   *testkit.Peer
	hbm   *testkit.Peer
	known map[uint32][]byte // what the tier knows

	loads      func(ctx context.Context) error // what becomes of the load of an adapter; nil: it is loaded
	reads      func(block int32)               // before each block is read; nil: nothing happens
	layout     string                          // of its blocks
	blockBytes int
}

// shelf is where a node has its adapters.
type shelf struct {
	*engine.AdapterStore
	node *node
}

func (s shelf) Load(ctx context.Context, key string, file engine.AdapterFile, pages []uint32, keep bool) error {
	if s.node.loads != nil {
		if err := s.node.loads(ctx); err != nil {
			return err
		}
	}
	return s.AdapterStore.Load(ctx, key, file, pages, keep)
}

// watched are blocks whose reads the test sees.
type watched struct {
	replica.Blocks
	node *node
}

func (w watched) Read(ctx context.Context, block int32, into []byte) error {
	if w.node.reads != nil {
		w.node.reads(block)
	}
	return w.Blocks.Read(ctx, block, into)
}

// cluster is two replicas of the real model on devices of their own, and sessions that are routed to the first.
type cluster struct {
	t        testing.TB
	settle   func()        // waits until nothing happens any more
	stepTime time.Duration // beside the computation
	before   func(batch []engine.Sequence)
	sys      *actor.ActorSystem
	bulk     *bulk
	a, b     *node
	to       *node                                    // where sessions are routed to; nil: a
	tiers    func(name string) replica.Tiers          // of each replica; nil: it has none
	find     func(*messages.FindBlocks) proto.Message // the router's answer
	operator *testkit.Peer
	router   *testkit.Peer
	orders   int
	requests int
}

// small replicas have few blocks and places.
type size struct{ blocks, sequences uint32 }

// newCluster is one in a synctest bubble.
func newCluster(t *testing.T, a, b size, mw ...actor.ReceiverMiddleware) *cluster {
	return build(&cluster{t: t, settle: synctest.Wait, stepTime: stepTime, bulk: &bulk{chunkTime: 4 * time.Millisecond}}, a, b, mw...)
}

func build(c *cluster, a, b size, mw ...actor.ReceiverMiddleware) *cluster {
	c.sys, c.bulk.open = testkit.System(c.t), map[string]*transfer{}
	c.operator = testkit.NewPeer(c.t, c.sys, "operator", nil)
	c.router = testkit.NewPeer(c.t, c.sys, "router", func(m proto.Message) proto.Message {
		if q, ok := m.(*messages.FindBlocks); ok && c.find != nil {
			return c.find(q)
		}
		if _, ok := m.(*messages.RouteSequence); !ok {
			return nil
		}
		to := c.a
		if c.to != nil {
			to = c.to
		}
		return &messages.RouteSequenceResult{Outcome: &messages.RouteSequenceResult_Routed{Routed: &messages.SequenceRouted{
			Replica: to.name, Actor: &messages.ActorRef{Address: to.GetAddress(), Id: to.GetId()},
		}}}
	})
	c.a, c.b = c.start("m-0", a, mw...), c.start("m-1", b, mw...)
	c.settle()
	return c
}

func (c *cluster) start(name string, of size, mw ...actor.ReceiverMiddleware) *node {
	c.t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 1 << 28, Workers: 1})
	if err != nil {
		c.t.Fatal(err)
	}
	holder := engine.NewHolder(device, llama.Format{})
	c.t.Cleanup(func() {
		if _, err := holder.Unload(name); err != nil {
			c.t.Error(err)
		}
		if err := device.Close(); err != nil {
			c.t.Error(err)
		}
	})
	n := &node{name: name, known: map[uint32][]byte{}}
	n.gpu = testkit.NewPeer(c.t, c.sys, name+"-gpu", func(m proto.Message) proto.Message {
		if lease, ok := m.(*messages.LeaseAdapters); ok {
			l, err := holder.LeaseAdapters(name, 2)
			if err != nil {
				c.t.Error(err)
			}
			return &messages.LeaseAdaptersResult{RequestId: lease.GetRequestId(), Outcome: &messages.LeaseAdaptersResult_Leased{
				Leased: &messages.AdaptersLeased{Lease: name, Pages: uint32(l.AdapterPages)},
			}}
		}
		load, asks := m.(*messages.LoadModel)
		if !asks {
			return nil
		}
		l, err := holder.Load(context.Background(), engine.LoadSpec{
			Lease: name, Path: testkit.Model(), BlockTokens: int(load.GetBlockTokens()), KVBlocks: int(of.blocks),
			Limits: engine.Limits{
				StepTokens: int(load.GetStepTokens()), MaxSequences: int(load.GetMaxSequences()),
				MaxAdapters: int(load.GetMaxAdapters()), MaxRank: int(load.GetMaxAdapterRank()),
			},
		})
		if err != nil {
			c.t.Error(err)
		}
		return &messages.LoadModelResult{Outcome: &messages.LoadModelResult_Loaded{Loaded: &messages.ModelLoaded{
			Lease: name, KvBlocks: of.blocks, KvBlockBytes: uint64(l.KVBlockBytes), ContextTokens: uint32(l.Facts.ContextTokens), Eos: l.Facts.EOS,
		}}}
	})
	var tiers replica.Tiers
	if c.tiers != nil {
		tiers = c.tiers(name)
	}
	tier := &stage{blocks: n.known}
	n.hbm = testkit.NewPeer(c.t, c.sys, name+"-hbm", tier.tier)
	n.PID = testkit.Spawn(c.t, c.sys, name, supervise.Strategy(nil), replica.Props(replica.Config{
		Spec: &messages.ReplicaSpec{
			Name: name, Model: "m", Node: "node-" + name, BlockTokens: 8, MaxSequences: of.sequences, MaxWaiting: 20, StepTokens: 32,
		},
		GPU: n.gpu.PID, HBM: n.hbm.PID, Deployment: c.operator.PID, Router: c.router.PID, Strategy: supervise.Strategy(nil), Bulk: c.bulk, Tiers: tiers, Log: zerolog.Nop(),
		Blocks: func(lease string) (replica.Blocks, error) {
			b, err := holder.Blocks(lease)
			n.layout, n.blockBytes = b.Layout(), b.BlockBytes()
			return watched{b, n}, err
		},
		Engine: func(lease string, gate func(uint64) (engine.Gate, error)) *actor.Props {
			return replica.EngineProps(replica.EngineConfig{Gate: gate, Open: func() (engine.Engine, error) {
				e, err := holder.Open(lease)
				return slow{e, c.stepTime, c.before}, err
			}, Adapter: func(key string) (*engine.Adapter, error) {
				store, err := holder.Adapters(lease)
				if err != nil {
					return nil, err
				}
				a, ok := store.Find(key)
				if !ok {
					return nil, errors.New(key + " is not there")
				}
				return a, nil
			}})
		},
		Adapters: func(lease string) *actor.Props {
			return adapter.Props(adapter.Config{
				Open: func() (adapter.Store, error) {
					store, err := holder.Adapters(lease)
					return shelf{store, n}, err
				},
				Slot: adapter.SlotProps, Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
			})
		},
	}), mw...)
	return n
}

// caller is a client with a session of its own.
type caller struct {
	id      string
	session *actor.PID

	mu       sync.Mutex
	output   []uint32
	logprobs []*messages.TokenLogprobs
	ended    string
}

func (c *caller) Output() []uint32 { c.mu.Lock(); defer c.mu.Unlock(); return slices.Clone(c.output) }
func (c *caller) Deliver(tokens []uint32, logprobs []*messages.TokenLogprobs, _ uint32, finish messages.FinishReason) {
	c.mu.Lock()
	c.output, c.logprobs = append(c.output, tokens...), append(c.logprobs, logprobs...)
	c.mu.Unlock()
	if finish != messages.FinishReason_FINISH_REASON_UNSPECIFIED {
		c.end(finish.String())
	}
}
func (c *caller) Fail(r *messages.Refused) { c.end(r.String()) }

func (c *caller) end(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended += how
}

func (c *caller) done() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.ended != "" }

// call opens a session; its client sees what it generates.
func (c *cluster) call(seq *messages.SequenceSpec) *caller {
	c.requests++
	client := &caller{id: fmt.Sprint("r", c.requests)}
	client.session = testkit.Spawn(c.t, c.sys, "session-"+client.id, supervise.Strategy(nil), session.Props(session.Config{
		RequestID: client.id, Sequence: seq, Client: client, Router: c.router.PID,
	}))
	c.settle()
	return client
}

// until lets time pass until a condition holds.
func (c *cluster) until(what string, ok func() bool) {
	c.t.Helper()
	for range 10000 {
		if c.settle(); ok() {
			return
		}
		time.Sleep(stepTime / 2)
	}
	c.t.Fatalf("not within %v: %s", 5000*stepTime, what)
}

// move has a replica move sequences, and returns its answer.
func (c *cluster) move(from, to *node, ids ...string) *messages.MigrateSequencesResult {
	c.t.Helper()
	id := c.order(from, to, ids...)
	c.until("an answer to "+id, func() bool { return c.answer(id) != nil })
	return c.answer(id)
}

func (c *cluster) order(from, to *node, ids ...string) string {
	c.orders++
	id := fmt.Sprint("order-", c.orders)
	c.operator.Send(from.PID, &messages.MigrateSequences{
		RequestId: id, Target: to.name, TargetActor: &messages.ActorRef{Address: to.GetAddress(), Id: to.GetId()}, RequestIds: ids,
	})
	return id
}

func (c *cluster) answer(id string) *messages.MigrateSequencesResult {
	for _, r := range testkit.Got[*messages.MigrateSequencesResult](c.operator) {
		if r.GetRequestId() == id {
			return r
		}
	}
	return nil
}

func (c *cluster) status(n *node) *messages.ReplicaStatus {
	c.t.Helper()
	got := len(testkit.Got[*messages.ReplicaStatus](c.operator))
	c.operator.Send(n.PID, &messages.GetReplica{})
	c.until("status of "+n.name, func() bool { return len(testkit.Got[*messages.ReplicaStatus](c.operator)) > got })
	return testkit.Got[*messages.ReplicaStatus](c.operator)[got]
}

func (c *cluster) stop(n *node) {
	n.gone = true
	c.sys.Root.Stop(n.PID)
}

// empty checks that nothing is left of all that ran, once what expires has expired.
func (c *cluster) empty() {
	c.t.Helper()
	time.Sleep(20 * time.Second)
	for _, n := range []*node{c.a, c.b} {
		if n.gone {
			continue
		}
		if s := c.status(n); s.GetRunning() != 0 || s.GetWaiting() != 0 || s.GetKvBlocksFree() != s.GetKvBlocks() {
			c.t.Errorf("%s: %d run, %d wait, %d of %d blocks are free", n.name, s.GetRunning(), s.GetWaiting(), s.GetKvBlocksFree(), s.GetKvBlocks())
		}
	}
	c.bulk.mu.Lock()
	defer c.bulk.mu.Unlock()
	if len(c.bulk.open) != 0 {
		c.t.Errorf("%d transfers are open", len(c.bulk.open))
	}
}

// finished waits for a caller and compares what it saw.
func (c *cluster) finished(got, want *caller) {
	c.t.Helper()
	c.until(got.id+" ends", got.done)
	if got.ended != want.ended || !slices.Equal(got.output, want.output) {
		c.t.Errorf("%s: %s with %v,\nundisturbed %s with %v", got.id, got.ended, got.output, want.ended, want.output)
	}
	if len(got.logprobs) != len(want.logprobs) {
		c.t.Fatalf("%s: %d log-probabilities, undisturbed %d", got.id, len(got.logprobs), len(want.logprobs))
	}
	for i := range got.logprobs {
		if !proto.Equal(got.logprobs[i], want.logprobs[i]) {
			c.t.Fatalf("%s: token %d has %v, undisturbed %v", got.id, i, got.logprobs[i], want.logprobs[i])
		}
	}
}

// undisturbed are the outcomes of sequences that ran once, by sequence: what an engine computes does not depend on who else is there.
var undisturbed sync.Map

// alone runs a sequence undisturbed, unless one of its kind has run already.
func (c *cluster) alone(seq *messages.SequenceSpec) *caller {
	c.t.Helper()
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(seq)
	if err != nil {
		c.t.Fatal(err)
	}
	if w, ok := undisturbed.Load(string(key)); ok {
		return w.(*caller)
	}
	w := c.call(seq)
	c.until(w.id+" ends", w.done)
	undisturbed.Store(string(key), w)
	return w
}

// greedy and sampled are two ways to generate; salt makes prompts differ from their first token on.
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

func sampled(salt, prompt, tokens uint32) *messages.SequenceSpec {
	s := greedy(salt, prompt, tokens)
	s.Sampling = &messages.SamplingParams{
		MaxTokens: tokens, IgnoreEos: true, Logprobs: true, TopLogprobs: 3, Temperature: 0.9, TopP: 0.95, Seed: uint64(salt) + 7,
		RepetitionPenalty: 1.2, FrequencyPenalty: 0.1, MinTokens: 3,
	}
	return s
}

// fault loses or doubles messages of a type on their way in, from the one numbered After on, Times times.
type fault struct {
	on           string
	after, times int64
	double       bool
	seen         atomic.Int64
}

func (f *fault) middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if fmt.Sprintf("%T", env.Message) == f.on {
			if n := f.seen.Add(1); n > f.after && n <= f.after+f.times {
				if !f.double {
					return
				}
				next(ctx, env)
			}
		}
		next(ctx, env)
	}
}
