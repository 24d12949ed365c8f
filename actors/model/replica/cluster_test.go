package replica_test

import (
	"cmp"
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
	"troupe/actors/supervise"
	"troupe/core/sample"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// sameRevision is the digest of the files of replicas that have the same.
const sameRevision = "one"

const stepTime = 10 * time.Millisecond

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
	*residency.AdapterCache
	node *node
}

func (s shelf) Load(ctx context.Context, key string, file engine.AdapterFile, pages []uint32, keep bool) error {
	if s.node.loads != nil {
		if err := s.node.loads(ctx); err != nil {
			return err
		}
	}
	return s.AdapterCache.Load(ctx, key, file, pages, keep)
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
	t         testing.TB
	settle    func()        // waits until nothing happens any more
	stepTime  time.Duration // beside the computation
	before    func(batch []engine.Sequence)
	sys       *actor.ActorSystem
	bulk      *bulk
	a, b      *node
	to        *node                                    // where sessions are routed to; nil: a
	tiers     func(name string) replica.Tiers          // of each replica; nil: it has none
	find      func(*messages.FindBlocks) proto.Message // the router's answer
	folder    func(revision string) string             // looks at the folder of each replica; nil: nobody does
	revisions map[string]string                        // of the replicas' files; else sameRevision
	operator  *testkit.Peer
	router    *testkit.Peer
	orders    int
	requests  int
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
	holder := residency.NewStore(device, llama.Loader{})
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
			Lease: name, KvBlocks: of.blocks, KvBlockBytes: uint64(l.KVBlockBytes), ContextTokens: uint32(l.Info.ContextTokens), Eos: l.Info.EOS,
			WeightsDigest: cmp.Or(c.revisions[name], sameRevision), RevisionDigest: cmp.Or(c.revisions[name], sameRevision),
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
			Name: name, Model: "m", RevisionDigest: cmp.Or(c.revisions[name], sameRevision), Node: "node-" + name,
			BlockTokens: 8, MaxSequences: of.sequences, MaxWaiting: 20, StepTokens: 32,
		},
		GPU: n.gpu.PID, HBM: n.hbm.PID, Deployment: c.operator.PID, Router: c.router.PID, Strategy: supervise.Strategy(nil),
		Bulk: c.bulk, Tiers: tiers, Folder: c.folder, Log: zerolog.Nop(),
		Blocks: func(lease string) (replica.Blocks, error) {
			b, err := holder.OpenBlocks(lease)
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
		RequestId: id, Target: to.name, TargetActor: &messages.ActorRef{Address: to.GetAddress(), Id: to.GetId()}, RequestIds: ids, Cause: "the test's " + id,
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
