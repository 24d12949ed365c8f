package node_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// lender is a node with a replica, and the test as its sessions.
type lender struct {
	*node.Node
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
	l.hearsSalted(replica, prompt, nil)
}

// hearsSalted is hears for a tenant's blocks.
func (l *lender) hearsSalted(replica string, prompt []uint32, salt []byte) {
	l.t.Helper()
	until(l.t, "the blocks of "+replica+" to be announced", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !slices.ContainsFunc(kv.Fingerprints(kv.Hashes(kv.Root("kjv", "", salt), prompt, 16)), func(b uint64) bool { return !l.believed[replica][b] })
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
func lenders(t *testing.T, change func(i int, c *node.Config), wrap func(i int, kind string) actor.ReceiverMiddleware) (a, b *lender) {
	t.Helper()
	both := []*lender{{t: t}, {t: t}}
	nodes := together(t, 2, func(i int, c *node.Config) {
		c.Tiers.Restore = kv.RestoreAlways
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
	spec.KvBlocks = new(uint32(48))
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
	return l.generateSalted(prompt, nil)
}

// generateSalted is generate for a tenant.
func (l *lender) generateSalted(prompt []uint32, salt []byte) (tokens []uint32, cached uint32) {
	l.t.Helper()
	l.asked++
	id, to := fmt.Sprint(l.Member().GetName(), "-", l.asked), l.replica().GetActor()
	l.sessions.Send(actor.NewPID(to.GetAddress(), to.GetId()), &messages.SubmitSequence{RequestId: id, Sequence: &messages.SequenceSpec{
		Model: "kjv", Prompt: prompt, Sampling: &messages.SamplingParams{MaxTokens: 12, IgnoreEos: true}, Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD,
		CacheSalt: salt,
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

// tieredPair gives the first of two nodes tiers, and so few blocks of HBM that what was computed is soon in the tiers only.
func tieredPair(t *testing.T, nvme bool, path string) (a, b *lender) {
	return lenders(t, func(i int, c *node.Config) {
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

// leaseOf asks a node's replica for the blocks of a prompt, as a replica of the same weights would.
func (l *lender) leaseOf(id string, space []byte, prompt []uint32, ticket *messages.BulkTicket, d time.Duration) *messages.LeaseBlocksResult {
	l.t.Helper()
	to := l.replica()
	m := &messages.LeaseBlocks{RequestId: id, Space: space, BlockBytes: ticket.GetBytes()/12 - kvstore.SealBytes, Ticket: ticket, Lease: durationpb.New(d)}
	for _, h := range kv.Hashes(kv.Root("kjv", "", nil), prompt, 16) {
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
