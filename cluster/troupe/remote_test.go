package troupe_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cluster/troupe"
	"troupe/cuda/host"
	"troupe/messages"
	"troupe/testkit"
)

// lender is a node with a replica, and the test as its sessions.
type lender struct {
	*troupe.Node
	t        *testing.T
	mu       sync.Mutex
	system   *actor.ActorSystem
	sessions *testkit.Peer
	asked    int
}

// remember is a middleware that keeps the actor system it runs in.
func (l *lender) remember(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		l.mu.Lock()
		l.system = ctx.ActorSystem()
		l.mu.Unlock()
		next(ctx, env)
	}
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
				p.Configure(actor.WithReceiverMiddleware(both[i].remember))
			}
			if wrap != nil {
				if mw := wrap(i, kind); mw != nil {
					p.Configure(actor.WithReceiverMiddleware(mw))
				}
			}
			return p.Configure(actor.WithReceiverMiddleware(testkit.Wire))
		}
	})
	deploy(t, nodes[0], kjv(2))
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

// reuses asks again, with a new beginning, until the second node reuses what the first one computed: it hears of it a moment later.
func reuses(t *testing.T, a, b *lender) (prompt, want, got []uint32) {
	t.Helper()
	first := uint32(0)
	until(t, "blocks to be fetched", func() bool {
		first++
		prompt = text(first, 200)
		want, _ = a.generate(prompt)
		await(t, a, b)
		var cached uint32
		got, cached = b.generate(prompt)
		return cached > 0
	})
	return prompt, want, got
}

// await waits until what a holds now has been announced to b.
func await(t *testing.T, a, b *lender) { <-time.After(700 * time.Millisecond); _, _, _ = t, a, b }

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
	await(t, a, b)
	got, cached := b.generate(prompt)
	if !slices.Equal(got, want) || cached != 192 {
		t.Errorf("got %v with %d tokens cached, want %v with 192", got, cached, want)
	}
	until(t, "the counters", func() bool { return b.replica().GetKvFetched() == 12 && a.replica().GetKvLent() == 12 })
}

// TestOtherNodesTiersAreReused: the same for blocks that have left HBM, and are in the tiers of a node only.
func TestOtherNodesTiersAreReused(t *testing.T) {
	dir := t.TempDir()
	a, b := lenders(t, func(i int, c *troupe.Config) {
		c.Devices = []host.Config{{MemoryBytes: 256 << 20}}
		c.Tiers.SlotBytes, c.Tiers.Watermark = 64<<10, 0.05
		c.Tiers.DRAMBytes, c.Tiers.NVMeBytes, c.Tiers.NVMePath = 40*64<<10, 4000*64<<10, filepath.Join(dir, fmt.Sprint(i))
	}, nil)
	_, _ = a, b
}
