package node_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/bulk"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// TestFetchFromOtherReplica checks that a replica fetches the blocks of a prompt from another
// node's replica instead of computing them, with the same tokens.
func TestFetchFromOtherReplica(t *testing.T) {
	a, b := startPeers(t, nil, nil)
	prompt := text(1, 200)
	want, cached := a.generate(prompt)
	if cached != 0 {
		t.Fatalf("%d tokens of a new prompt are cached", cached)
	}
	b.awaitBlocks(a.replica().GetName(), prompt)
	got, cached := b.generate(prompt)
	if !slices.Equal(got, want) || cached != 192 {
		t.Errorf("got %v with %d tokens cached, want %v with 192", got, cached, want)
	}
	waitFor(t, "the counters", func() bool { return b.replica().GetKvFetched() == 12 && a.replica().GetKvLent() == 12 })
	s, err := b.Status().Remote(t.Context())
	if err != nil || s.GetArrivals() != 12 || s.GetArriving() != 0 || s.GetTakenBytes() != 0 ||
		len(s.GetHolders()) != 1 ||
		s.GetHolders()[0].GetBytesPerSecond() == 0 {
		t.Errorf("the remote tier: %v, %v", s, err)
	}
	stats, err := b.Backend().KV(t.Context(), &messages.KvNodeRequest{What: &messages.KvNodeRequest_Stats{}})
	if all := stats.GetNode().GetTiers(); err != nil || len(all) == 0 ||
		all[len(all)-1].GetSlots().GetName() != "remote" {
		t.Errorf("%v, %v", stats, err)
	}
	res, err := b.Backend().KV(t.Context(),
		&messages.KvNodeRequest{What: &messages.KvNodeRequest_Flush{Flush: &messages.KvFlushRequest{Tier: "remote"}}})
	if err != nil || len(res.GetMoved()) != 1 || !strings.Contains(res.GetMoved()[0].GetDetail(), "dram") {
		t.Errorf("a tier without blocks was flushed: %v, %v", res, err)
	}
}

// TestFetchFromTiersOfOtherNode checks the same for blocks that only a tier of the other node has.
func TestFetchFromTiersOfOtherNode(t *testing.T) {
	for _, nvme := range []bool{false, true} {
		t.Run(map[bool]string{false: "dram", true: "nvme"}[nvme], func(t *testing.T) {
			a, b := startTieredPeers(t, nvme, filepath.Join(t.TempDir(), "kv"))
			prompt := text(1, 200)
			want := a.generateAndDemote(prompt, b)
			b.awaitTierBlocks(a)
			got, cached := b.generate(prompt)
			if !slices.Equal(got, want) || cached != 192 {
				t.Errorf("got %v with %d tokens cached, want %v with 192", got, cached, want)
			}
			waitFor(t, "the counter", func() bool {
				all, err := a.Status().Tiers(t.Context())
				return err == nil && all[0].GetLent() == 12
			})
		})
	}
}

// TestFetchOfCorruptBlocks checks that corrupt blocks are detected by the node that holds them,
// dropped there, and computed by the replica that wants them.
func TestFetchOfCorruptBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv")
	a, b := startTieredPeers(t, true, path)
	prompt := text(1, 200)
	want := a.generateAndDemote(prompt, b)
	b.awaitTierBlocks(a)
	corruptBlocks(t, path)
	got, cached := b.generate(prompt)
	if !slices.Equal(got, want) || cached != 0 {
		t.Errorf("got %v with %d tokens cached, want %v with none", got, cached, want)
	}
	waitFor(t, "the counters", func() bool {
		r := b.replica()
		all, err := a.Status().Tiers(t.Context())
		return err == nil && all[0].GetDamaged() > 0 && all[0].GetLent() == 0 &&
			r.GetKvFetched() == 0 && r.GetKvFetchFailed() == 12
	})
	line := `troupe_kv_copies_failed_total{from="remote",to="hbm"} 12`
	waitFor(t, line, func() bool { return strings.Contains(scrape(t, b.Node), line) })
}

// TestFetchSurvivesHolderFaults checks that a holder's crash or silence costs its blocks but no
// token, and that the holder serves blocks again afterwards.
func TestFetchSurvivesHolderFaults(t *testing.T) {
	for _, on := range []string{"*messages.LeaseBlocks", "*replica.tieringNote"} {
		t.Run(on, func(t *testing.T) {
			crash := &testkit.Crash{On: on, Times: 1}
			a, b := startPeers(t, nil, func(i int, kind string) actor.ReceiverMiddleware {
				if i == 0 && kind == "replica" {
					return crash.Middleware
				}
				return nil
			})
			for i := range uint32(2) {
				prompt := text(i, 200)
				want, _ := a.generate(prompt)
				b.awaitBlocks(a.replica().GetName(), prompt)
				got, cached := b.generate(prompt)
				if !slices.Equal(got, want) || i > 0 && cached != 192 {
					t.Errorf("prompt %d: got %v with %d tokens cached, want %v", i, got, cached, want)
				}
			}
			if crash.Crashed() == 0 {
				t.Error("no crash was injected")
			}
		})
	}
}

// TestSendRequiresToken checks over real connections that a transfer accepts only blocks with
// its token, and that a reader that stalls holds nothing for longer than the lease.
func TestSendRequiresToken(t *testing.T) {
	var asked atomic.Pointer[messages.LeaseBlocks]
	a, b := startPeers(t, nil, func(i int, kind string) actor.ReceiverMiddleware {
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
	b.awaitBlocks(a.replica().GetName(), prompt)
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
		ticket, err := plane.Expect(size+kvstore.SealBytes, 12, func(uint32, []byte) error {
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
	if r := a.requestLease("forged", space, prompt, forged, 30*time.Second); r.GetRefused() == nil || came.Load() != 0 {
		t.Errorf("with a forged token %d blocks came: %v", came.Load(), r)
	}
	if r := a.requestLease("true", space, prompt, ticket, 30*time.Second); r.GetSent().GetBlocks() != 12 ||
		came.Load() != 12 {
		t.Errorf("with the token %d blocks came: %v", came.Load(), r)
	}
	otherWeights := slices.Clone(space)
	otherWeights[0] ^= 1
	if r := a.requestLease("other weights", otherWeights, prompt, expect(false), 30*time.Second); r.GetSent().
		GetBlocks() !=
		0 ||
		came.Load() != 12 {
		t.Errorf("for a reader with other weights %d blocks came: %v", came.Load()-12, r)
	}
	if r := a.requestLease("stalled", space, prompt, expect(true), 200*time.Millisecond); r.GetRefused() == nil {
		t.Errorf("of a reader that takes nothing: %v", r)
	}
	close(stalled)
	waitFor(t, "nothing to be locked", func() bool { r := a.replica(); return r.GetKvBlocksFree() == r.GetKvBlocks() })
}

// TestFetchChangesNoToken checks that conversations over two replicas with few blocks, which are
// demoted, restored and fetched, get the tokens of one replica with room for all.
func TestFetchChangesNoToken(t *testing.T) {
	const many = 12
	want := plainConversations(t, many)
	a, b := startPeersOf(t, lightSpec(t, 2), func(i int, c *node.Config) {
		c.Tiers.DRAMBytes, c.Tiers.Watermark = 100*64<<10, 0.5
	}, func(_ int, kind string) actor.ReceiverMiddleware {
		if kind == "router" {
			return hidePrompts
		}
		return nil
	})
	for range 2 {
		got := completeConversations(t, a.Node, many)
		for i := range want {
			if got[i] != want[i] || want[i] == "" {
				t.Errorf("prompt %d: got %q, want %q", i, got[i], want[i])
			}
		}
		a.awaitTierBlocks(b)
		b.awaitTierBlocks(a)
	}
	waitFor(t, "blocks to be released", func() bool {
		for _, l := range []*kvPeer{a, b} {
			if r := l.replica(); r.GetKvBlocksFree() != r.GetKvBlocks() {
				return false
			}
			all, err := l.Status().Tiers(t.Context())
			if err != nil || all[0].GetFree()+all[0].GetResident() != all[0].GetSlots() {
				return false
			}
		}
		return true
	})
	for _, l := range []*kvPeer{a, b} {
		r := l.replica()
		t.Logf("%s: restored %d, fetched %d, not fetched %d, lent %d", r.GetName(), r.GetKvRestored(),
			r.GetKvFetched(), r.GetKvFetchFailed(), r.GetKvLent())
	}
	if a.replica().GetKvFetched()+b.replica().GetKvFetched() == 0 {
		t.Error("no block came from the other node")
	}
}

// hidePrompts is middleware of routers that hides prompts, so that requests are not routed to their
// blocks.
func hidePrompts(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if m, ok := env.Message.(*messages.RouteSequence); ok {
			m = proto.CloneOf(m)
			m.Prompt = m.Prompt[:1]
			env = &actor.MessageEnvelope{Header: env.Header, Message: m, Sender: env.Sender}
		}
		next(ctx, env)
	}
}
