package troupe_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cluster/troupe"
	"troupe/core/kv"
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
	spec.KvBlocks = 48
	deploy(t, nodes[0], spec)
	for i, n := range nodes {
		both[i].Node = n
		both[i].sessions = testkit.NewPeer(t, both[i].system, "test-sessions", nil)
	}
	return both[0], both[1]
}

// replica is how the node's own replica is.
func (l *lender) replica() *messages.ReplicaStatus {
	l.t.Helper()
	d, err := l.Deployment(l.t.Context(), "kjv")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, r := range d.GetReplicas() {
		if r.GetNode() == l.Member().GetName() {
			return r
		}
	}
	l.t.Fatalf("no replica on %s: %v", l.Member().GetName(), d.GetReplicas())
	return nil
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
}

// tieredPair gives the first of two nodes tiers, and so few blocks of HBM that what was computed is soon in the tiers only.
func tieredPair(t *testing.T, nvme bool, path string) (a, b *lender) {
	return lenders(t, func(i int, c *troupe.Config) {
		if i > 0 {
			return
		}
		c.Tiers.SlotBytes, c.Tiers.Watermark = 64<<10, 0.2
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
