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

// kvPeer is a node with a replica. The test acts as its sessions.
type kvPeer struct {
	*node.Node
	t        *testing.T
	sessions *testkit.Peer
	requests int

	mu        sync.Mutex
	system    *actor.ActorSystem
	announced map[string]map[uint64]bool // by other nodes: blocks by replica or tier, such as "kjv-0" or "dram"
}

// recordAnnouncements is middleware of the router that records the announcements of other nodes.
func (p *kvPeer) recordAnnouncements(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		p.mu.Lock()
		p.system = ctx.ActorSystem()
		if msg, ok := env.Message.(*messages.RoutesAnnounced); ok {
			for _, r := range msg.GetReplicas() {
				p.record(r.GetStatus().GetName(), r.GetSnapshot(), r.GetEvicted(), r.GetCommitted())
			}
			for _, r := range msg.GetTiers() {
				p.record(r.GetName(), r.GetSnapshot(), r.GetEvicted(), r.GetCommitted())
			}
		}
		p.mu.Unlock()
		next(ctx, env)
	}
}

func (p *kvPeer) record(holder string, snapshot bool, evicted, committed []uint64) {
	if p.announced == nil {
		p.announced = make(map[string]map[uint64]bool)
	}
	if p.announced[holder] == nil || snapshot {
		p.announced[holder] = make(map[uint64]bool)
	}
	for _, b := range evicted {
		delete(p.announced[holder], b)
	}
	for _, b := range committed {
		p.announced[holder][b] = true
	}
}

// awaitBlocks waits until the node knows that another node's replica has the blocks of a prompt.
func (p *kvPeer) awaitBlocks(replica string, prompt []uint32) {
	p.t.Helper()
	p.awaitSaltedBlocks(replica, prompt, nil)
}

// awaitSaltedBlocks is like awaitBlocks, for a tenant's blocks.
func (p *kvPeer) awaitSaltedBlocks(replica string, prompt []uint32, salt []byte) {
	p.t.Helper()
	waitFor(p.t, "the blocks of "+replica+" to be announced", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !slices.ContainsFunc(kv.Fingerprints(kv.Hashes(kv.Root("kjv", "", salt), prompt, 16)),
			func(b uint64) bool { return !p.announced[replica][b] })
	})
}

// awaitTierBlocks waits until the node knows all blocks in the tiers of another node, and there are
// some.
func (p *kvPeer) awaitTierBlocks(of *kvPeer) {
	p.t.Helper()
	waitFor(p.t, "the blocks of tiers to be announced", func() bool {
		all, err := of.Status().Tiers(p.t.Context())
		if err != nil {
			return false
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		resident := 0
		for _, s := range all {
			if resident += int(s.GetResident()); s.GetArriving()+s.GetLeaving() > 0 ||
				len(p.announced[s.GetName()]) != int(s.GetResident()) {
				return false
			}
		}
		return resident > 0
	})
}

// startPeers starts two nodes with one replica of the shipped model each. change modifies the configuration of node i,
// and middleware returns middleware for its actors.
func startPeers(t *testing.T, change func(i int, c *node.Config),
	middleware func(i int, kind string) actor.ReceiverMiddleware) (a, b *kvPeer) {
	t.Helper()
	return startPeersOf(t, kjvSpec(2), change, middleware)
}

// startPeersOf is like startPeers, for the given model.
func startPeersOf(t *testing.T, spec *messages.DeploymentSpec, change func(i int, c *node.Config),
	middleware func(i int, kind string) actor.ReceiverMiddleware) (a, b *kvPeer) {
	t.Helper()
	both := []*kvPeer{{t: t}, {t: t}}
	nodes := startCluster(t, 2, func(i int, c *node.Config) {
		c.Tiers.Restore = kv.RestoreAlways
		if change != nil {
			change(i, c)
		}
		c.Middleware = func(kind string) (all []actor.ReceiverMiddleware) {
			if kind == "router" {
				all = append(all, both[i].recordAnnouncements)
			}
			if middleware != nil {
				if m := middleware(i, kind); m != nil {
					all = append(all, m)
				}
			}
			return append(all, wired(kind)...)
		}
	})
	spec.KvBlocks = new(uint32(48))
	deploy(t, nodes[0], spec)
	for i, n := range nodes {
		both[i].Node = n
		waitFor(t, "the weights to be known", func() bool { return both[i].replica().GetKvOffloadReady() })
		both[i].mu.Lock()
		system := both[i].system
		both[i].mu.Unlock()
		both[i].sessions = testkit.NewPeer(t, system, "test-sessions", nil)
	}
	return both[0], both[1]
}

// replica returns the status of the node's own replica, once the node knows it.
func (p *kvPeer) replica() (found *messages.ReplicaStatus) {
	p.t.Helper()
	waitFor(p.t, "a replica on "+p.Member().GetName(), func() bool {
		d, err := p.Backend().Deployment(p.t.Context(), "kjv")
		if err != nil {
			return false
		}
		for _, r := range d.GetReplicas() {
			if r.GetNode() == p.Member().GetName() {
				found = r
			}
		}
		return found != nil
	})
	return found
}

// generate generates on the node's own replica, bypassing the router.
func (p *kvPeer) generate(prompt []uint32) (tokens []uint32, cached uint32) {
	p.t.Helper()
	return p.generateSalted(prompt, nil)
}

// generateSalted is generate for a tenant.
func (p *kvPeer) generateSalted(prompt []uint32, salt []byte) (tokens []uint32, cached uint32) {
	p.t.Helper()
	p.requests++
	id, to := fmt.Sprint(p.Member().GetName(), "-", p.requests), p.replica().GetActor()
	p.sessions.Send(
		actor.NewPID(to.GetAddress(), to.GetId()),
		&messages.SubmitSequence{RequestId: id, Sequence: &messages.SequenceSpec{
			Model: "kjv", Prompt: prompt,
			Sampling:  &messages.SamplingParams{MaxTokens: 12, IgnoreEos: true},
			Priority:  messages.PriorityClass_PRIORITY_CLASS_STANDARD,
			CacheSalt: salt,
		}},
	)
	waitFor(p.t, "12 tokens", func() bool {
		tokens, cached = nil, 0
		for _, m := range testkit.Got[*messages.TokensEmitted](p.sessions) {
			if m.GetRequestId() == id {
				tokens, cached = append(tokens, m.GetTokens()...), max(cached, m.GetCachedTokens())
			}
		}
		return len(tokens) == 12
	})
	return tokens, cached
}

// text returns a prompt of the given length that depends on first.
func text(first uint32, tokens int) []uint32 {
	prompt := make([]uint32, tokens)
	for i := range prompt {
		prompt[i] = (first*31 + uint32(i)*7) % 500
	}
	return prompt
}

// startTieredPeers starts two nodes, of which the first one has a tier below HBM.
func startTieredPeers(t *testing.T, nvme bool, path string) (a, b *kvPeer) {
	return startPeers(t, func(i int, c *node.Config) {
		if i > 0 {
			return
		}
		if c.Tiers.DRAMBytes = 400 * 64 << 10; nvme {
			c.Tiers.DRAMBytes, c.Tiers.NVMeBytes, c.Tiers.NVMePath = 0, 400*64<<10, path
		}
	}, nil)
}

// generateAndDemote generates for a prompt, offloads its blocks to the tiers and flushes the replica, until its blocks
// are only in the tiers, as another node knows. Blocks that are being copied stay where they are.
func (p *kvPeer) generateAndDemote(prompt []uint32, knows *kvPeer) (tokens []uint32) {
	p.t.Helper()
	tokens, _ = p.generate(prompt)
	replica := p.replica().GetName()
	knows.awaitBlocks(replica, prompt)
	do := func(what *messages.KvNodeRequest) *messages.KvMoved {
		res, err := p.Backend().KV(p.t.Context(), what)
		if err != nil || len(res.GetMoved()) != 1 {
			p.t.Fatalf("%v, %v", res, err)
		}
		return res.GetMoved()[0]
	}
	offload := &messages.KvNodeRequest_Offload{Offload: &messages.KvOffloadRequest{}}
	flush := &messages.KvNodeRequest_Flush{Flush: &messages.KvFlushRequest{Tier: "hbm"}}
	waitFor(p.t, "the blocks to be in the tiers", func() bool {
		moved := do(&messages.KvNodeRequest{What: offload})
		all, err := p.Status().Tiers(p.t.Context())
		return err == nil && moved.GetBlocks() == 0 && all[0].GetArriving() == 0 &&
			int(all[0].GetResident()) >= len(prompt)/16
	})
	waitFor(p.t, "the blocks to leave the replica", func() bool {
		do(&messages.KvNodeRequest{What: flush})
		return !knows.hasBlock(replica, prompt)
	})
	return tokens
}

// hasBlock reports whether the node knows that a replica of another node has a block of a prompt.
func (p *kvPeer) hasBlock(replica string, prompt []uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(kv.Fingerprints(kv.Hashes(kv.Root("kjv", "", nil), prompt, 16)),
		func(b uint64) bool { return p.announced[replica][b] })
}

// corruptBlocks flips a bit in every 512 bytes of a tier's file.
func corruptBlocks(t *testing.T, path string) {
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

// requestLease requests the blocks of a prompt from a node's replica, as a replica with the same
// weights does.
func (p *kvPeer) requestLease(id string, space []byte, prompt []uint32, ticket *messages.BulkTicket,
	d time.Duration) *messages.LeaseBlocksResult {
	p.t.Helper()
	to := p.replica()
	m := &messages.LeaseBlocks{
		RequestId:  id,
		Space:      space,
		BlockBytes: ticket.GetBytes()/12 - kvstore.SealBytes,
		Ticket:     ticket,
		Lease:      durationpb.New(d),
	}
	for _, h := range kv.Hashes(kv.Root("kjv", "", nil), prompt, 16) {
		m.Hashes = append(m.Hashes, h[:])
	}
	p.sessions.Send(actor.NewPID(to.GetActor().GetAddress(), to.GetActor().GetId()), m)
	var result *messages.LeaseBlocksResult
	waitFor(p.t, "an answer to "+id, func() bool {
		for _, r := range testkit.Got[*messages.LeaseBlocksResult](p.sessions) {
			if r.GetRequestId() == id {
				result = r
			}
		}
		return result != nil
	})
	return result
}
