package replica_test

import (
	"context"
	"errors"
	"fmt"
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
	transfers "troupe/actors/model/replica/migration/transfer"
	"troupe/actors/model/stepper"
	"troupe/actors/supervise"
	"troupe/core/lora"
	core "troupe/core/replica"
	"troupe/core/sample"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/reference"
)

// sameRevision is the default revision of all replicas.
const sameRevision = "one"

const stepTime = 10 * time.Millisecond

// slowEngine is an engine whose steps take time in a synctest bubble.
type slowEngine struct {
	engine.Engine
	time    time.Duration
	prefill time.Duration                 // added to steps that prefill without a gate
	before  func(batch []engine.Sequence) // called before each step; nil: no calls
}

// slowPrefill is a duration of prefills for which a replica measures a rate so low that a sequence
// starts as soon as the first part of its blocks is restored.
const slowPrefill = time.Second

func prefills(s engine.Sequence) bool { return len(s.Tokens) > 1 }

func gated(s engine.Sequence) bool { return s.Gate != nil }

func (s slowEngine) Step(ctx context.Context, batch []engine.Sequence) ([]sample.Token, error) {
	time.Sleep(s.time)
	if slices.ContainsFunc(batch, prefills) && !slices.ContainsFunc(batch, gated) {
		time.Sleep(s.prefill)
	}
	if s.before != nil {
		s.before(batch)
	}
	return s.Engine.Step(ctx, batch)
}

// testNode is a replica with its own device.
type testNode struct {
	*actor.PID
	name  string
	gone  bool
	gpu   *testkit.Peer
	hbm   *testkit.Peer
	known map[uint32][]byte // blocks that the HBM tier knows

	onAdapterLoad func(ctx context.Context) error // returns the error of an adapter's load; nil: none
	onRead        func(block int32)               // called before each read of a block; nil: no calls
	layout        string                          // of its blocks
	blockBytes    int
}

// adapterShelf is an adapter store that injects failures.
type adapterShelf struct {
	*residency.AdapterCache
	node *testNode
}

func (s adapterShelf) Load(
	ctx context.Context, key string, file engine.AdapterFile, pages []uint32, ticket string,
) (lora.Tier, error) {
	if s.node.onAdapterLoad != nil {
		if err := s.node.onAdapterLoad(ctx); err != nil {
			return lora.Disk, err
		}
	}
	return s.AdapterCache.Load(ctx, key, file, pages, ticket)
}

// watchedBlocks reports reads to the test.
type watchedBlocks struct {
	replica.Blocks
	node *testNode
}

func (w watchedBlocks) Read(ctx context.Context, block int32, into []byte) error {
	if w.node.onRead != nil {
		w.node.onRead(block)
	}
	return w.Blocks.Read(ctx, block, into)
}

// cluster is two replicas of a model, each on its own device, and sessions that are routed to the
// first.
type cluster struct {
	t           testing.TB
	model       string        // its folder; empty: a small model
	settle      func()        // waits until all actors are idle
	stepTime    time.Duration // added to the computation
	prefillTime time.Duration // added to the prefill, without a gate
	beforeStep  func(batch []engine.Sequence)
	sys         *actor.ActorSystem
	bulk        *bulk
	a, b        *testNode
	routeTo     *testNode                                // replica of new sessions; nil: a
	tiers       func(name string) replica.Tiers          // by replica; nil: no tiers
	findBlocks  func(*messages.FindBlocks) proto.Message // the router's answer
	checkFolder func(revision string) core.Folder        // of each replica; nil: none
	revisions   map[string]string                        // by replica; default sameRevision, empty: no digest
	operator    *testkit.Peer
	router      *testkit.Peer
	orders      int
	requests    int
}

// revisionOf returns the digest of a replica's files.
func (c *cluster) revisionOf(name string) string {
	if revision, ok := c.revisions[name]; ok {
		return revision
	}
	return sameRevision
}

// size is the number of KV blocks and the maximum number of sequences in the batch.
type size struct{ blocks, sequences uint32 }

// newCluster returns a cluster in a synctest bubble.
func newCluster(t *testing.T, a, b size, mw ...actor.ReceiverMiddleware) *cluster {
	return buildCluster(inBubble(t), a, b, mw...)
}

// newShippedCluster is like newCluster, with the shipped model, which has adapters.
func newShippedCluster(t *testing.T, a, b size, mw ...actor.ReceiverMiddleware) *cluster {
	c := inBubble(t)
	c.model = testkit.Model()
	return buildCluster(c, a, b, mw...)
}

func inBubble(t *testing.T) *cluster {
	return &cluster{t: t, settle: synctest.Wait, stepTime: stepTime, bulk: &bulk{chunkTime: 4 * time.Millisecond}}
}

// smallModel writes a random model whose KV blocks have the size of the shipped model's, and whose
// tokens take a twentieth of the computation.
func smallModel(t testing.TB) string {
	return reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "F16", Layers: modelLayers, Vocab: 1024, ContextTokens: 1024,
		Hidden: 32, Heads: 2, KVHeads: 2, HeadDim: 32, Tied: true,
	}, 1)
}

func buildCluster(c *cluster, a, b size, mw ...actor.ReceiverMiddleware) *cluster {
	if c.model == "" {
		c.model = smallModel(c.t)
	}
	c.sys, c.bulk.open = testkit.System(c.t), map[string]*transfer{}
	c.operator = testkit.NewPeer(c.t, c.sys, "operator", nil)
	c.router = testkit.NewPeer(c.t, c.sys, "router", func(m proto.Message) proto.Message {
		if q, ok := m.(*messages.FindBlocks); ok && c.findBlocks != nil {
			return c.findBlocks(q)
		}
		if _, ok := m.(*messages.RouteSequence); !ok {
			return nil
		}
		to := c.a
		if c.routeTo != nil {
			to = c.routeTo
		}
		return &messages.RouteSequenceResult{Outcome: &messages.RouteSequenceResult_Routed{
			Routed: &messages.SequenceRouted{
				Replica: to.name, Actor: &messages.ActorRef{Address: to.GetAddress(), Id: to.GetId()},
			},
		}}
	})
	c.a, c.b = c.start("m-0", a, mw...), c.start("m-1", b, mw...)
	c.settle()
	return c
}

func (c *cluster) start(name string, of size, mw ...actor.ReceiverMiddleware) *testNode {
	c.t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 1 << 28, Workers: 1})
	if err != nil {
		c.t.Fatal(err)
	}
	holder := residency.NewStore(device, llama.Loader{})
	c.t.Cleanup(func() {
		if _, err := holder.Unload(name); err != nil {
			c.t.Error(err)
		}
		if err := device.Close(); err != nil {
			c.t.Error(err)
		}
	})
	n := &testNode{name: name, known: map[uint32][]byte{}}
	n.gpu = testkit.NewPeer(c.t, c.sys, name+"-gpu", func(m proto.Message) proto.Message {
		if lease, ok := m.(*messages.LeaseAdapters); ok {
			l, err := holder.LeaseAdapters(name, 2, 2)
			if err != nil {
				c.t.Error(err)
			}
			return &messages.LeaseAdaptersResult{RequestId: lease.GetRequestId(),
				Outcome: &messages.LeaseAdaptersResult_Leased{
					Leased: &messages.AdaptersLeased{Lease: name, Pages: uint32(l.AdapterPages)},
				}}
		}
		if turn, ok := m.(*messages.RequestTurn); ok {
			return openTurn(turn)
		}
		load, asks := m.(*messages.LoadModel)
		if !asks {
			return nil
		}
		l, err := holder.Load(context.Background(), engine.LoadSpec{
			Lease: name, Path: c.model, BlockTokens: int(load.GetBlockTokens()), KVBlocks: int(of.blocks),
			Limits: engine.Limits{
				StepTokens: int(load.GetStepTokens()), MaxSequences: int(load.GetMaxSequences()),
				MaxAdapters: int(load.GetMaxAdapters()), MaxRank: int(load.GetMaxAdapterRank()),
			},
		})
		if err != nil {
			c.t.Error(err)
		}
		return &messages.LoadModelResult{Outcome: &messages.LoadModelResult_Loaded{Loaded: &messages.ModelLoaded{
			Lease: name, Handle: l.Handle, KvBlocks: of.blocks, KvBlockBytes: uint64(l.KVBlockBytes),
			ContextTokens: uint32(l.Info.ContextTokens), Eos: l.Info.EOS,
			WeightsDigest: c.revisionOf(name), RevisionDigest: c.revisionOf(name),
		}}}
	})
	var tiers replica.Tiers
	if c.tiers != nil {
		tiers = c.tiers(name)
	}
	tier := &harness{blocks: n.known}
	n.hbm = testkit.NewPeer(c.t, c.sys, name+"-hbm", tier.answerHBM)
	n.PID = testkit.Spawn(c.t, c.sys, name, supervise.Strategy(nil), replica.Props(replica.Config{
		Spec: &messages.ReplicaSpec{
			Name: name, Model: "m", RevisionDigest: c.revisionOf(name), Node: "node-" + name,
			BlockTokens: 8, MaxSequences: of.sequences, MaxWaiting: 20, StepTokens: 32,
		},
		GPU: n.gpu.PID, HBM: n.hbm.PID, Deployment: c.operator.PID, Router: c.router.PID,
		Strategy: supervise.Strategy(nil),
		Bulk:     c.bulk, Tiers: tiers, CheckFolder: c.checkFolder, Log: zerolog.Nop(),
		OpenBlocks: func(handle string) (replica.Blocks, error) {
			b, err := holder.OpenBlocks(handle)
			n.layout, n.blockBytes = b.Layout(), b.BlockBytes()
			return watchedBlocks{b, n}, err
		},
		Transfers: transfers.Props,
		Copier:    func(of replica.CopierSpec) *actor.Props { return c.copierProps(tiers, of, holder, mw) },
		Engine: func(handle string, gate func(uint64) (engine.Gate, error)) *actor.Props {
			return stepper.Props(stepper.Config{Gate: gate, Open: func() (engine.Engine, error) {
				e, err := holder.Open(handle)
				return slowEngine{e, c.stepTime, c.prefillTime, c.beforeStep}, err
			}, Adapter: func(key string) (*engine.Adapter, error) {
				store, err := holder.Adapters(handle)
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
		Adapters: func(handle string) *actor.Props {
			return adapter.Props(adapter.Config{
				Open: func() (adapter.Store, error) {
					store, err := holder.Adapters(handle)
					return adapterShelf{store, n}, err
				},
				Slot: adapter.SlotProps, Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
			})
		},
	}), mw...)
	return n
}

// waitFor lets time pass until a condition holds.
func (c *cluster) waitFor(what string, ok func() bool) {
	c.t.Helper()
	for range 10000 {
		if c.settle(); ok() {
			return
		}
		time.Sleep(stepTime / 2)
	}
	c.t.Fatalf("not within %v: %s", 5000*stepTime, what)
}

// move migrates sequences and returns the replica's answer.
func (c *cluster) move(from, to *testNode, ids ...string) *messages.MigrateSequencesResult {
	c.t.Helper()
	id := c.migrate(from, to, ids...)
	c.waitFor("an answer to "+id, func() bool { return c.answer(id) != nil })
	return c.answer(id)
}

func (c *cluster) migrate(from, to *testNode, ids ...string) string {
	c.orders++
	id := fmt.Sprint("order-", c.orders)
	c.operator.Send(from.PID, &messages.MigrateSequences{
		RequestId: id, Target: to.name, TargetActor: &messages.ActorRef{Address: to.GetAddress(), Id: to.GetId()},
		RequestIds: ids, Cause: "the test's " + id,
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

func (c *cluster) status(n *testNode) *messages.ReplicaStatus {
	c.t.Helper()
	got := len(testkit.Got[*messages.ReplicaStatus](c.operator))
	c.operator.Send(n.PID, &messages.GetReplica{})
	c.waitFor("status of "+n.name, func() bool { return len(testkit.Got[*messages.ReplicaStatus](c.operator)) > got })
	return testkit.Got[*messages.ReplicaStatus](c.operator)[got]
}

func (c *cluster) stop(n *testNode) {
	n.gone = true
	c.sys.Root.Stop(n.PID)
}

// checkEmpty checks that all resources are released once all timeouts have passed.
func (c *cluster) checkEmpty() {
	c.t.Helper()
	time.Sleep(20 * time.Second)
	for _, n := range []*testNode{c.a, c.b} {
		if n.gone {
			continue
		}
		if s := c.status(n); s.GetRunning() != 0 || s.GetWaiting() != 0 || s.GetKvBlocksFree() != s.GetKvBlocks() {
			c.t.Errorf("%s: %d running, %d waiting, %d of %d blocks free", n.name, s.GetRunning(), s.GetWaiting(),
				s.GetKvBlocksFree(), s.GetKvBlocks())
		}
	}
	c.bulk.mu.Lock()
	defer c.bulk.mu.Unlock()
	if len(c.bulk.open) != 0 {
		c.t.Errorf("%d open transfers", len(c.bulk.open))
	}
}

// checkOutcome waits for the end of a sequence and compares its output with that of another run.
func (c *cluster) checkOutcome(got, want *testClient) {
	c.t.Helper()
	c.waitFor(got.id+" to end", got.done)
	if got.outcome != want.outcome || !slices.Equal(got.output, want.output) {
		c.t.Errorf("%s: %s with %v,\nundisturbed %s with %v", got.id, got.outcome, got.output, want.outcome,
			want.output)
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

// references caches the outcomes of undisturbed runs, by sequence. An outcome does not depend on
// other sequences.
var references sync.Map

// reference returns the outcome of an undisturbed run of a sequence.
func (c *cluster) reference(seq *messages.SequenceSpec) *testClient {
	c.t.Helper()
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(seq)
	if err != nil {
		c.t.Fatal(err)
	}
	if w, ok := references.Load(string(key)); ok {
		return w.(*testClient)
	}
	w := c.open(seq)
	c.waitFor(w.id+" to end", w.done)
	references.Store(string(key), w)
	return w
}

// messageFault drops or duplicates received messages of a type: those from number after+1 to number
// after+times.
type messageFault struct {
	messageType  string
	after, times int64
	double       bool
	seen         atomic.Int64
}

func (f *messageFault) middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if fmt.Sprintf("%T", env.Message) == f.messageType {
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
