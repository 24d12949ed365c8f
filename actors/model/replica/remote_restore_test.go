package replica_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/kvblock"
	"troupe/actors/model/replica"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
	"troupe/testkit"
)

// newRemoteCluster returns a cluster whose second replica always fetches the blocks of the first
// one.
func newRemoteCluster(t *testing.T, spaces map[string]string, mw ...actor.ReceiverMiddleware) *cluster {
	return buildCluster(unbuiltRemoteCluster(t, spaces, mw...), size{64, 8}, size{64, 8}, mw...)
}

// unbuiltRemoteCluster is newRemoteCluster before its replicas are started.
func unbuiltRemoteCluster(t *testing.T, spaces map[string]string, mw ...actor.ReceiverMiddleware) *cluster {
	c := &cluster{t: t, settle: synctest.Wait, stepTime: stepTime, bulk: &bulk{chunkTime: time.Millisecond},
		revisions: spaces}
	c.tiers = func(name string) replica.Tiers {
		remote := testkit.Spawn(t, c.sys, name+"-remote", supervise.Strategy(nil),
			kvblock.RemoteProps(kvblock.RemoteConfig{Router: c.router.PID, Log: zerolog.Nop()}), mw...)
		return replica.Tiers{Restore: kv.RestoreAlways, Remote: remote, RemoteAvailable: func() bool { return true }}
	}
	c.findBlocks = func(q *messages.FindBlocks) proto.Message {
		r := &messages.FindBlocksResult{RequestId: q.GetRequestId()}
		if q.GetReplica() == c.b.name {
			r.Held = []*messages.BlocksHeld{{Blocks: uint32(len(q.GetBlocks())), Name: "m-0",
				Holder: &messages.ActorRef{Address: c.a.GetAddress(), Id: c.a.GetId()}}}
		}
		return r
	}
	return c
}

// runFetched runs a sequence at the first replica and then again at the second one, and returns the
// status of the second one.
func (c *cluster) runFetched(prepare func()) *messages.ReplicaStatus {
	c.t.Helper()
	seq := sampled(5, 90, 12)
	want := c.open(seq)
	c.waitFor("the end of the first run", want.done)
	if prepare != nil {
		prepare()
	}
	c.routeTo = c.b
	c.checkOutcome(c.open(seq), want)
	time.Sleep(15 * time.Second) // all timeouts have passed
	return c.status(c.b)
}

const fetchable = 11 // number of full blocks of 8 tokens in a prompt of 90

func TestFetchFromReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRemoteCluster(t, nil)
		s := c.runFetched(nil)
		if s.GetKvFetched() != fetchable || s.GetTokensCached() != 8*fetchable || s.GetKvFetchFailed() != 0 {
			t.Errorf("%v", s)
		}
		if a := c.status(c.a); a.GetKvLent() != fetchable {
			t.Errorf("%v", a)
		}
		c.checkEmpty()
	})
}

// TestFetchFaults injects faults into fetches. The tokens must be the same, missing blocks must be
// computed, and all resources must be released.
func TestFetchFaults(t *testing.T) {
	failing := func(at int, err error) func(*cluster) {
		return func(c *cluster) {
			first := c.bulk.sent
			c.bulk.fail = func(n int) error {
				if n-first == at {
					return err
				}
				return nil
			}
		}
	}
	for _, tc := range []struct {
		name    string
		spaces  map[string]string
		mw      []actor.ReceiverMiddleware
		prepare func(*cluster)
		fetched uint64
		lives   uint64 // expected incarnation of the holder; 0: 1
	}{
		{name: "the sender fails", prepare: failing(4, errors.New("gone")), fetched: 3},
		{name: "the sender stalls", prepare: failing(4, errStall), fetched: 3},
		{name: "the sender stops", prepare: func(c *cluster) {
			first := c.bulk.sent
			c.bulk.fail = func(n int) error {
				if n-first == 4 {
					c.stop(c.a)
					return errStall
				}
				return nil
			}
		}, fetched: 3},
		{name: "a byte is flipped", prepare: func(c *cluster) {
			first := c.bulk.sent
			c.bulk.damage = func(n int, chunk []byte) {
				if n-first == 6 {
					chunk[100] ^= 4
				}
			}
		}, fetched: 5},
		{name: "the wrong block is sent", prepare: func(c *cluster) {
			var before []byte
			c.bulk.damage = func(_ int, chunk []byte) {
				if before != nil {
					copy(chunk, before)
				}
				before = append([]byte(nil), chunk...)
			}
		}, fetched: 1},
		{name: "other weights", spaces: map[string]string{"m-0": "one", "m-1": "other"}},
		{name: "the holder crashes",
			mw:    []actor.ReceiverMiddleware{(&testkit.Crash{On: "*messages.LeaseBlocks", Times: 1}).Middleware},
			lives: 2},
		{name: "the holder crashes after the transfer",
			mw:      []actor.ReceiverMiddleware{(&testkit.Crash{On: "*replica.tieringNote", Times: 1}).Middleware},
			fetched: fetchable, lives: 2},
		{name: "the remote tier crashes",
			mw: []actor.ReceiverMiddleware{(&testkit.Crash{On: "*messages.FetchBlocks", Times: 1}).Middleware}},
		{name: "the remote tier crashes after the transfer",
			mw:      []actor.ReceiverMiddleware{(&testkit.Crash{On: "*kvblock.leaseDone", Times: 1}).Middleware},
			fetched: fetchable},
		{name: "the lease is lost", mw: []actor.ReceiverMiddleware{
			(&messageFault{messageType: "*messages.LeaseBlocks", times: 1}).middleware,
		}},
		{name: "the lease is duplicated", mw: []actor.ReceiverMiddleware{
			(&messageFault{messageType: "*messages.LeaseBlocks", times: 1, double: true}).middleware,
		}, fetched: fetchable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newRemoteCluster(t, tc.spaces, tc.mw...)
				s := c.runFetched(func() {
					if tc.prepare != nil {
						tc.prepare(c)
					}
				})
				if s.GetKvFetched() != tc.fetched || s.GetKvFetched()+s.GetKvFetchFailed() != fetchable {
					t.Errorf("%d fetched and %d failed, want %d of %d fetched", s.GetKvFetched(), s.GetKvFetchFailed(),
						tc.fetched, fetchable)
				}
				if !c.a.gone && c.status(c.a).GetIncarnation() != max(tc.lives, 1) {
					t.Errorf("incarnation %d of the holder", c.status(c.a).GetIncarnation())
				}
				c.checkEmpty()
			})
		})
	}
}

// TestFetchReceiverCrash checks that a replica that crashes during a fetch leaves no resources
// behind, at either end.
func TestFetchReceiverCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.CopyFoundBlocksResult", Times: 1}
		c := newRemoteCluster(t, nil, crash.Middleware)
		if c.runFetched(nil); crash.Crashed() == 0 {
			t.Error("no actor crashed")
		}
		c.checkEmpty()
	})
}

// TestBlockLeaseExpires checks that a lease holds blocks until it expires or is released, and no
// longer.
func TestBlockLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRemoteCluster(t, nil)
		seq := greedy(1, 90, 4)
		first := c.open(seq)
		c.waitFor("its end", first.done)
		c.bulk.fail = func(int) error { return errStall }
		locked := func() uint32 { s := c.status(c.a); return s.GetKvBlocks() - s.GetKvBlocksFree() }
		ticket, err := c.bulk.Expect(c.a.blockBytes+8, fetchable, func(uint32, []byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer c.bulk.Drop(ticket)
		lease := func(id string, d time.Duration) {
			c.operator.Send(c.a.PID, c.leaseRequest(id, seq, ticket, d))
			synctest.Wait()
			if n := locked(); n != fetchable {
				t.Errorf("%d blocks are leased", n)
			}
		}
		lease("expires", 3*time.Second)
		time.Sleep(2900 * time.Millisecond)
		if locked() != fetchable {
			t.Error("the lease expired early")
		}
		time.Sleep(200 * time.Millisecond)
		if n := locked(); n != 0 {
			t.Errorf("%d blocks are leased after the expiry", n)
		}
		lease("released", 3*time.Second)
		c.operator.Send(c.a.PID, &messages.ReleaseBlocks{RequestId: "released"})
		if synctest.Wait(); locked() != 0 {
			t.Error("blocks are leased after the release")
		}
		lease("endless", 1000*time.Hour)
		if time.Sleep(11 * time.Second); locked() != 0 {
			t.Error("a lease of 1000 h has no limit")
		}
	})
}

// TestBlockLeaseRefused checks the reasons of refused leases.
func TestBlockLeaseRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRemoteCluster(t, nil)
		seq := greedy(1, 90, 4)
		first := c.open(seq)
		c.waitFor("its end", first.done)
		c.bulk.fail = func(int) error { return errStall }
		ticket, err := c.bulk.Expect(c.a.blockBytes+8, fetchable, func(uint32, []byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		ask := func(id string, change func(*messages.LeaseBlocks)) messages.Reason {
			m := c.leaseRequest(id, seq, ticket, time.Second)
			if change != nil {
				change(m)
			}
			c.operator.Send(c.a.PID, m)
			synctest.Wait()
			for _, r := range testkit.Got[*messages.LeaseBlocksResult](c.operator) {
				if r.GetRequestId() == id {
					return r.GetRefused().GetReason()
				}
			}
			return messages.Reason_REASON_UNSPECIFIED
		}
		for name, change := range map[string]func(*messages.LeaseBlocks){
			"size":     func(m *messages.LeaseBlocks) { m.BlockBytes-- },
			"space":    func(m *messages.LeaseBlocks) { m.Space[3]++ },
			"no space": func(m *messages.LeaseBlocks) { m.Space = nil },
		} {
			if got := ask(name, change); got != messages.Reason_REASON_CONFLICT {
				t.Errorf("%s: %v", name, got)
			}
		}
		for i := range 8 {
			if got := ask(string(rune('a'+i)), nil); got != 0 {
				t.Errorf("lease %d: %v", i, got)
			}
		}
		if got := ask("ninth", nil); got != messages.Reason_REASON_QUEUE_FULL {
			t.Errorf("ninth lease: %v", got)
		}
		c.bulk.Drop(ticket)
		c.checkEmpty()
	})
}

// leaseRequest returns another replica's request for the blocks of a prompt at the first replica.
func (c *cluster) leaseRequest(id string, seq *messages.SequenceSpec, ticket *messages.BulkTicket,
	lease time.Duration) *messages.LeaseBlocks {
	m := &messages.LeaseBlocks{RequestId: id, Ticket: ticket, BlockBytes: uint64(c.a.blockBytes),
		Lease: durationpb.New(lease)}
	space := kv.Root(c.a.layout, sameRevision, nil)
	m.Space = space[:]
	for _, h := range kv.Hashes(kv.Root("m", "", nil), seq.GetPrompt(), 8)[:fetchable] {
		m.Hashes = append(m.Hashes, h[:])
	}
	return m
}
