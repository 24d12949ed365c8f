package troupe_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/cluster/bulk"
	"troupe/cluster/troupe"
	"troupe/core/kv"
	"troupe/engine/tier"
	"troupe/messages"
	"troupe/testkit"
)

// lender is a node with a replica, and the test as its sessions.
type lender struct {
	*troupe.Node
	t        *testing.T
	sessions *testkit.Peer
	asked    int

	mu       sync.Mutex
	system   *actor.ActorSystem
	believed map[string]map[uint64]bool // what other nodes announced: "kjv-0", "dram" -> blocks
}

// listen is a middleware of the router that keeps what other nodes announce.
func (l *lender) listen(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		l.mu.Lock()
		l.system = ctx.ActorSystem()
		if msg, ok := env.Message.(*messages.RoutesAnnounced); ok {
			for _, r := range msg.GetReplicas() {
				l.believe(r.GetStatus().GetName(), r.GetSnapshot(), r.GetEvicted(), r.GetCommitted())
			}
			for _, r := range msg.GetTiers() {
				l.believe(r.GetName(), r.GetSnapshot(), r.GetEvicted(), r.GetCommitted())
			}
		}
		l.mu.Unlock()
		next(ctx, env)
	}
}

func (l *lender) believe(holder string, snapshot bool, evicted, committed []uint64) {
	if l.believed == nil {
		l.believed = make(map[string]map[uint64]bool)
	}
	if l.believed[holder] == nil || snapshot {
		l.believed[holder] = make(map[uint64]bool)
	}
	for _, b := range evicted {
		delete(l.believed[holder], b)
	}
	for _, b := range committed {
		l.believed[holder][b] = true
	}
}

// hears waits until the node knows that a replica elsewhere has a prompt's blocks.
func (l *lender) hears(replica string, prompt []uint32) {
	l.t.Helper()
	until(l.t, "the blocks of "+replica+" to be announced", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !slices.ContainsFunc(kv.Shorts(kv.Hashes(kv.Root("kjv", ""), prompt, 16)), func(b uint64) bool { return !l.believed[replica][b] })
	})
}

// hearsTiers waits until the node knows all that the tiers of another hold, and it is something.
func (l *lender) hearsTiers(of *lender) {
	l.t.Helper()
	until(l.t, "the blocks of tiers to be announced", func() bool {
		all, err := of.Tiers(l.t.Context())
		if err != nil {
			return false
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		resident := 0
		for _, s := range all {
			if resident += int(s.GetResident()); s.GetArriving()+s.GetLeaving() > 0 || len(l.believed[s.GetName()]) != int(s.GetResident()) {
				return false
			}
		}
		return resident > 0
	})
}

// lenders starts two nodes with one replica each; change says what is special about one of them, wrap about its actors.
func lenders(t *testing.T, change func(i int, c *troupe.Config), wrap func(i int, kind string) actor.ReceiverMiddleware) (a, b *lender) {
	t.Helper()
	return lendersOf(t, testkit.Model(), nil, change, wrap)
}

// lendersOf starts the second replica after between, where that is not nil.
func lendersOf(t *testing.T, model string, between func(), change func(i int, c *troupe.Config), wrap func(i int, kind string) actor.ReceiverMiddleware) (a, b *lender) {
	t.Helper()
	both := []*lender{{t: t}, {t: t}}
	nodes := together(t, 2, func(i int, c *troupe.Config) {
		c.Tiers.RestoreAlways = true
		if change != nil {
			change(i, c)
		}
		c.Wrap = func(kind string, p *actor.Props) *actor.Props {
			if kind == "router" {
				p.Configure(actor.WithReceiverMiddleware(both[i].listen))
			}
			if wrap != nil {
				if mw := wrap(i, kind); mw != nil {
					p.Configure(actor.WithReceiverMiddleware(mw))
				}
			}
			return p.Configure(actor.WithReceiverMiddleware(testkit.Wire))
		}
	})
	spec := kjv(2)
	if spec.Path, spec.KvBlocks = model, 48; between != nil {
		spec.Replicas = 1
		deploy(t, nodes[0], spec)
		until(t, "the weights to be known", func() bool { return replica(t, nodes[0], "kjv").GetKvTravels() })
		between()
		spec = proto.CloneOf(spec)
		spec.Replicas = 2
	}
	deploy(t, nodes[0], spec)
	for i, n := range nodes {
		both[i].Node = n
		until(t, "the weights to be known", func() bool { return both[i].replica().GetKvTravels() })
		both[i].mu.Lock()
		system := both[i].system
		both[i].mu.Unlock()
		both[i].sessions = testkit.NewPeer(t, system, "test-sessions", nil)
	}
	return both[0], both[1]
}

// replica is how the node's own replica is, once the node knows.
func (l *lender) replica() (found *messages.ReplicaStatus) {
	l.t.Helper()
	until(l.t, "a replica on "+l.Member().GetName(), func() bool {
		d, err := l.Deployment(l.t.Context(), "kjv")
		if err != nil {
			return false
		}
		for _, r := range d.GetReplicas() {
			if r.GetNode() == l.Member().GetName() {
				found = r
			}
		}
		return found != nil
	})
	return found
}

// generate has the node's own replica continue a prompt, wherever a router would send it.
func (l *lender) generate(prompt []uint32) (tokens []uint32, cached uint32) {
	l.t.Helper()
	l.asked++
	id, to := fmt.Sprint(l.Member().GetName(), "-", l.asked), l.replica().GetActor()
	l.sessions.Send(actor.NewPID(to.GetAddress(), to.GetId()), &messages.SubmitSequence{RequestId: id, Sequence: &messages.SequenceSpec{
		Model: "kjv", Prompt: prompt, Sampling: &messages.SamplingParams{MaxTokens: 12, IgnoreEos: true}, Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD,
	}})
	until(l.t, "12 tokens", func() bool {
		tokens, cached = nil, 0
		for _, m := range testkit.Got[*messages.TokensEmitted](l.sessions) {
			if m.GetRequestId() == id {
				tokens, cached = append(tokens, m.GetTokens()...), max(cached, m.GetCachedTokens())
			}
		}
		return len(tokens) == 12
	})
	return tokens, cached
}

// text is a prompt of as many tokens, with a beginning of its own.
func text(first uint32, tokens int) []uint32 {
	prompt := make([]uint32, tokens)
	for i := range prompt {
		prompt[i] = (first*31 + uint32(i)*7) % 500
	}
	return prompt
}

// TestOtherReplicasBlocksAreReused: what a replica on one node has computed, another fetches from its HBM and does not compute, and the tokens are
// the same.
func TestOtherReplicasBlocksAreReused(t *testing.T) {
	a, b := lenders(t, nil, nil)
	prompt := text(1, 200)
	want, cached := a.generate(prompt)
	if cached != 0 {
		t.Fatalf("%d tokens of a new prompt are cached", cached)
	}
	b.hears(a.replica().GetName(), prompt)
	got, cached := b.generate(prompt)
	if !slices.Equal(got, want) || cached != 192 {
		t.Errorf("got %v with %d tokens cached, want %v with 192", got, cached, want)
	}
	until(t, "the counters", func() bool { return b.replica().GetKvFetched() == 12 && a.replica().GetKvLent() == 12 })
	s, err := b.Remote(t.Context())
	if err != nil || s.GetArrivals() != 12 || s.GetArriving() != 0 || s.GetTakenBytes() != 0 || len(s.GetHolders()) != 1 || s.GetHolders()[0].GetBytesPerSecond() == 0 {
		t.Errorf("the remote tier: %v, %v", s, err)
	}
	stats, err := b.KV(t.Context(), &messages.KvNodeRequest{What: &messages.KvNodeRequest_Stats{}})
	if all := stats.GetNode().GetTiers(); err != nil || len(all) == 0 || all[len(all)-1].GetSlots().GetName() != "remote" {
		t.Errorf("%v, %v", stats, err)
	}
	_, err = b.KV(t.Context(), &messages.KvNodeRequest{What: &messages.KvNodeRequest_Flush{Flush: &messages.KvFlushRequest{Tier: "remote"}}})
	if err == nil || !strings.Contains(err.Error(), "dram") {
		t.Errorf("a tier without blocks was flushed: %v", err)
	}
}

// tieredPair gives the first of two nodes tiers, and so few blocks of HBM that what was computed is soon in the tiers only.
func tieredPair(t *testing.T, nvme bool, path string) (a, b *lender) {
	return lenders(t, func(i int, c *troupe.Config) {
		if i > 0 {
			return
		}
		c.Tiers.Watermark = 0.2
		if c.Tiers.DRAMBytes = 400 * 64 << 10; nvme {
			c.Tiers.DRAMBytes, c.Tiers.NVMeBytes, c.Tiers.NVMePath = 0, 400*64<<10, path
		}
	}, nil)
}

// descend has a node compute a prompt, and others until the blocks of the first are in its tiers and not in HBM any more.
func (l *lender) descend(prompt []uint32) (tokens []uint32) {
	tokens, _ = l.generate(prompt)
	for i := range uint32(8) {
		l.generate(text(100+i, 200))
	}
	return tokens
}

// TestOtherNodesTiersAreReused: the same for blocks that are in a tier of the other node only.
func TestOtherNodesTiersAreReused(t *testing.T) {
	for _, nvme := range []bool{false, true} {
		t.Run(map[bool]string{false: "dram", true: "nvme"}[nvme], func(t *testing.T) {
			a, b := tieredPair(t, nvme, filepath.Join(t.TempDir(), "kv"))
			prompt := text(1, 200)
			want := a.descend(prompt)
			b.hearsTiers(a)
			got, cached := b.generate(prompt)
			all, err := a.Tiers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) || cached != 192 || all[0].GetLent() != 12 {
				t.Errorf("got %v with %d tokens cached, want %v with 192; %v", got, cached, want, all)
			}
		})
	}
}

// TestDamagedAtTheSource: blocks that broke on the disk of the node that holds them are found out there, dropped, and computed where they were wanted.
func TestDamagedAtTheSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv")
	a, b := tieredPair(t, true, path)
	prompt := text(1, 200)
	want := a.descend(prompt)
	b.hearsTiers(a)
	scratch(t, path)
	got, cached := b.generate(prompt)
	if !slices.Equal(got, want) || cached != 0 {
		t.Errorf("got %v with %d tokens cached, want %v with none", got, cached, want)
	}
	all, err := a.Tiers(t.Context())
	if err != nil || all[0].GetDamaged() == 0 || all[0].GetLent() != 0 {
		t.Errorf("%v, %v", all, err)
	}
	until(t, "the counters", func() bool { r := b.replica(); return r.GetKvFetched() == 0 && r.GetKvFetchFailed() == 12 })
}

// scratch flips a bit in every 512 bytes of a tier's file.
func scratch(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(content); i += 512 {
		content[i] ^= 1
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestLenderFaults: a holder that crashes, or is silent, costs the blocks and no token; and it lends again.
func TestLenderFaults(t *testing.T) {
	for _, on := range []string{"*messages.LeaseBlocks", "*replica.returned"} {
		t.Run(on, func(t *testing.T) {
			crash := &testkit.Crash{On: on, Times: 1}
			a, b := lenders(t, nil, func(i int, kind string) actor.ReceiverMiddleware {
				if i == 0 && kind == "replica" {
					return crash.Middleware
				}
				return nil
			})
			for i := range uint32(2) {
				prompt := text(i, 200)
				want, _ := a.generate(prompt)
				b.hears(a.replica().GetName(), prompt)
				got, cached := b.generate(prompt)
				if !slices.Equal(got, want) || i > 0 && cached != 192 {
					t.Errorf("prompt %d: got %v with %d tokens cached, want %v", i, got, cached, want)
				}
			}
			if crash.Crashed() == 0 {
				t.Error("it did not crash")
			}
		})
	}
}

// leaseOf asks a node's replica for the blocks of a prompt, as a replica of the same weights would.
func (l *lender) leaseOf(id string, space []byte, prompt []uint32, ticket *messages.BulkTicket, d time.Duration) *messages.LeaseBlocksResult {
	l.t.Helper()
	to := l.replica()
	m := &messages.LeaseBlocks{RequestId: id, Space: space, BlockBytes: ticket.GetBytes()/12 - tier.SealBytes, Ticket: ticket, Lease: durationpb.New(d)}
	for _, h := range kv.Hashes(kv.Root("kjv", ""), prompt, 16) {
		m.Hashes = append(m.Hashes, h[:])
	}
	l.sessions.Send(actor.NewPID(to.GetActor().GetAddress(), to.GetActor().GetId()), m)
	var result *messages.LeaseBlocksResult
	until(l.t, "an answer to "+id, func() bool {
		for _, r := range testkit.Got[*messages.LeaseBlocksResult](l.sessions) {
			if r.GetRequestId() == id {
				result = r
			}
		}
		return result != nil
	})
	return result
}

// TestTokenIsTheRightToSend: over real connections, blocks come only to a transfer whose token was given, and a reader that does not take them holds
// nothing for longer than the lease.
func TestTokenIsTheRightToSend(t *testing.T) {
	var asked atomic.Pointer[messages.LeaseBlocks]
	a, b := lenders(t, nil, func(i int, kind string) actor.ReceiverMiddleware {
		return func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
				if m, ok := env.Message.(*messages.LeaseBlocks); ok {
					asked.Store(m)
				}
				next(ctx, env)
			}
		}
	})
	prompt := text(1, 200)
	a.generate(prompt)
	b.hears(a.replica().GetName(), prompt)
	b.generate(prompt)
	space, size := asked.Load().GetSpace(), int(asked.Load().GetBlockBytes())
	plane, err := bulk.Listen(bulk.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Close()
	var came atomic.Int64
	stalled := make(chan struct{})
	expect := func(stall bool) *messages.BulkTicket {
		ticket, err := plane.Expect(size+tier.SealBytes, 12, func(uint32, []byte) error {
			if came.Add(1); stall {
				<-stalled
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	ticket := expect(false)
	forged := proto.CloneOf(ticket)
	forged.Token[0] ^= 1
	if r := a.leaseOf("forged", space, prompt, forged, 5*time.Second); r.GetRefused() == nil || came.Load() != 0 {
		t.Errorf("with a forged token %d blocks came: %v", came.Load(), r)
	}
	if r := a.leaseOf("true", space, prompt, ticket, 5*time.Second); r.GetSent().GetBlocks() != 12 || came.Load() != 12 {
		t.Errorf("with the token %d blocks came: %v", came.Load(), r)
	}
	if r := a.leaseOf("stalled", space, prompt, expect(true), 200*time.Millisecond); r.GetRefused() == nil {
		t.Errorf("of a reader that takes nothing: %v", r)
	}
	close(stalled)
	until(t, "nothing to be locked", func() bool { r := a.replica(); return r.GetKvBlocksFree() == r.GetKvBlocks() })
}

// TestOtherWeightsAreNotShared: a replica of the same deployment that has loaded other files takes no block of the first.
func TestOtherWeightsAreNotShared(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(model, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	a, b := lendersOf(t, model, func() {
		weights, err := filepath.Glob(filepath.Join(model, "*.safetensors"))
		if err != nil || len(weights) == 0 {
			t.Fatal(weights, err)
		}
		content, err := os.ReadFile(weights[0])
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)-1] ^= 1
		if err := errors.Join(os.WriteFile(weights[0]+".new", content, 0o600), os.Rename(weights[0]+".new", weights[0])); err != nil {
			t.Fatal(err)
		}
	}, nil, nil)
	prompt := text(1, 200)
	a.generate(prompt)
	b.hears(a.replica().GetName(), prompt)
	if _, cached := b.generate(prompt); cached != 0 {
		t.Errorf("%d tokens of other weights were reused", cached)
	}
	until(t, "the counters", func() bool { return b.replica().GetKvFetchFailed() == 12 })
}

// TestFetchingChangesNoToken: conversations over two replicas that have little room, so that blocks travel down, up and between the nodes, have the tokens of
// one replica with room for everything.
func TestFetchingChangesNoToken(t *testing.T) {
	const many = 12
	want := conversations(t, start(t, small(8, 400, 0)), many)
	a, b := lenders(t, func(i int, c *troupe.Config) {
		c.Tiers.DRAMBytes, c.Tiers.Watermark = 100*64<<10, 0.5
	}, func(_ int, kind string) actor.ReceiverMiddleware {
		if kind == "router" {
			return blind
		}
		return nil
	})
	for range 2 {
		got := conversations(t, a.Node, many)
		for i := range want {
			if got[i] != want[i] || want[i] == "" {
				t.Errorf("prompt %d: got %q, want %q", i, got[i], want[i])
			}
		}
		a.hearsTiers(b)
		b.hearsTiers(a)
	}
	until(t, "blocks to be let go of", func() bool {
		for _, l := range []*lender{a, b} {
			if r := l.replica(); r.GetKvBlocksFree() != r.GetKvBlocks() {
				return false
			}
			all, err := l.Tiers(t.Context())
			if err != nil || all[0].GetFree()+all[0].GetResident() != all[0].GetSlots() {
				return false
			}
		}
		return true
	})
	for _, l := range []*lender{a, b} {
		r := l.replica()
		t.Logf("%s: restored %d, fetched %d, not fetched %d, lent %d", r.GetName(), r.GetKvRestored(), r.GetKvFetched(), r.GetKvFetchFailed(), r.GetKvLent())
	}
	if a.replica().GetKvFetched()+b.replica().GetKvFetched() == 0 {
		t.Error("no block came from the other node")
	}
}

// blind is a middleware of routers that hides prompts from them, so that they do not send requests where their blocks are.
func blind(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if m, ok := env.Message.(*messages.RouteSequence); ok {
			m = proto.CloneOf(m)
			m.Prompt = m.Prompt[:1]
			env = &actor.MessageEnvelope{Header: env.Header, Message: m, Sender: env.Sender}
		}
		next(ctx, env)
	}
}
