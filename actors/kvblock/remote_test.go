package kvblock_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// remoteStage is a remote tier with the test as its router, as two replicas and as a holder with a
// configurable reply.
type remoteStage struct {
	t              *testing.T
	sys            *actor.ActorSystem
	remote         *actor.PID
	router, holder *testkit.Peer
	replica, other *testkit.Peer
	reply          atomic.Pointer[answer] // of the holder; nil: none
}

type answer func(*messages.LeaseBlocks) *messages.LeaseBlocksResult

func (a *remoteStage) setReply(by answer) { a.reply.Store(&by) }

// playRemote starts a remote tier whose capacity is two blocks in flight.
func playRemote(t *testing.T, mw ...actor.ReceiverMiddleware) *remoteStage {
	a := &remoteStage{t: t, sys: testkit.System(t)}
	a.holder = testkit.NewPeer(t, a.sys, "holder", func(m proto.Message) proto.Message {
		lease, ok := m.(*messages.LeaseBlocks)
		by := a.reply.Load()
		if !ok || by == nil {
			return nil
		}
		return (*by)(lease)
	})
	a.router = testkit.NewPeer(t, a.sys, "router", func(m proto.Message) proto.Message {
		q, ok := m.(*messages.FindBlocks)
		if !ok {
			return nil
		}
		run := a.run(a.holder.PID)
		run.Blocks = uint32(len(q.GetInTiers()))
		return &messages.FindBlocksResult{RequestId: q.GetRequestId(), Held: []*messages.BlocksHeld{run}}
	})
	a.replica, a.other = testkit.NewPeer(t, a.sys, "replica", nil), testkit.NewPeer(t, a.sys, "other", nil)
	a.remote = testkit.Spawn(t, a.sys, "remote", supervise.Strategy(nil), kvblock.RemoteProps(kvblock.RemoteConfig{
		Router: a.router.PID, Capacity: 2 * blockBytes, Log: zerolog.Nop(),
	}), mw...)
	return a
}

// released returns the leases for which the holder received ReleaseBlocks.
func (a *remoteStage) released() (ids []string) {
	for _, l := range testkit.Got[*messages.ReleaseBlocks](a.holder) {
		ids = append(ids, l.GetRequestId())
	}
	return ids
}

func (a *remoteStage) run(holder *actor.PID) *messages.BlocksHeld {
	return &messages.BlocksHeld{Name: "dram on b", Node: "b", Holder: &messages.ActorRef{Address: holder.GetAddress(),
		Id: holder.GetId()}}
}

func (a *remoteStage) fetch(id string, within time.Duration, numbers ...int) *messages.FetchBlocks {
	return &messages.FetchBlocks{RequestId: id, From: a.run(a.holder.PID), Hashes: hashes(numbers...),
		Space: namespace[:], BlockBytes: blockBytes,
		Ticket: &messages.BulkTicket{Transfer: id}, Within: durationpb.New(within)}
}

func (a *remoteStage) status() *messages.SlotsStatus {
	a.t.Helper()
	synctest.Wait()
	answer, err := a.sys.Root.RequestFuture(a.remote, &messages.GetSlots{}, time.Second).Result()
	if err != nil {
		a.t.Fatal(err)
	}
	return answer.(*messages.SlotsStatus)
}

// expect checks the number of fetches in flight and waiting.
func (a *remoteStage) expect(what string, fetches, waiting uint32) {
	a.t.Helper()
	if s := a.status(); s.GetFetches() != fetches || s.GetWaiting() != waiting ||
		(fetches == 0) != (s.GetTakenBytes() == 0) {
		a.t.Errorf("%s: %v, want %d in flight and %d waiting", what, s, fetches, waiting)
	}
}

// results returns the results sent to a replica by request: the reason for a refusal or the number
// of blocks sent.
func results(p *testkit.Peer) map[string]string {
	all := map[string]string{}
	for _, r := range testkit.Got[*messages.FetchBlocksResult](p) {
		all[r.GetRequestId()] += strings.TrimPrefix(r.GetRefused().GetReason().String(), "REASON_")
		if r.GetRefused() == nil {
			all[r.GetRequestId()] = fmt.Sprint(r.GetSent().GetBlocks())
		}
	}
	return all
}

func sent(blocks uint32) answer {
	return func(l *messages.LeaseBlocks) *messages.LeaseBlocksResult {
		return &messages.LeaseBlocksResult{RequestId: l.GetRequestId(),
			Outcome: &messages.LeaseBlocksResult_Sent{Sent: &messages.BlocksSent{Blocks: blocks}}}
	}
}

// TestRemoteLookupReturnsPaths checks that a lookup asks the router and that the answer includes
// the path: what fetches have measured and the bytes in flight.
func TestRemoteLookupReturnsPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := playRemote(t)
		find := func(id string) *messages.BlocksHeld {
			a.replica.Send(a.remote, &messages.FindBlocks{RequestId: id, InTiers: []uint64{1, 2, 3},
				Blocks: []uint64{4, 5, 6}})
			synctest.Wait()
			all := testkit.Got[*messages.FindBlocksResult](a.replica)
			if len(all) == 0 || all[len(all)-1].GetRequestId() != id || len(all[len(all)-1].GetHeld()) != 1 {
				t.Fatalf("%v", all)
			}
			return all[len(all)-1].GetHeld()[0]
		}
		if h := find("first"); h.GetBlocks() != 3 || h.GetNode() != "b" || h.GetHolder().GetId() != "holder" ||
			h.GetPath().GetBytesPerSecond() != 0 || h.GetPath().GetTryBlocks() == 0 {
			t.Errorf("%v", h)
		}
		if s := a.status(); s.GetResident() != 3 || s.GetArriving() != 0 {
			t.Errorf("want three known blocks: %v", s)
		}
		a.replica.Send(a.remote, &messages.BlocksFetched{From: a.run(a.holder.PID), Wanted: 4, Received: 3,
			BlockBytes: blockBytes, Bytes: 3 * blockBytes, FirstBytes: blockBytes,
			First: durationpb.New(time.Millisecond), Took: durationpb.New(3 * time.Millisecond)})
		a.replica.Send(a.remote, a.fetch("under way", time.Second, 1))
		if h := find("second"); h.GetPath().GetBytesPerSecond() != 2*blockBytes/0.002 ||
			h.GetPath().GetLatency().AsDuration() != time.Millisecond || h.GetPath().GetQueuedBytes() != blockBytes {
			t.Errorf("%v", h)
		}
		s := a.status()
		if h := s.GetHolders()[0]; s.GetHits() != 3 || s.GetMisses() != 1 || s.GetBytes() != 3*blockBytes ||
			h.GetName() != "dram on b" || h.GetMissed() != 1 || h.GetLatencies()[4] != 1 {
			t.Errorf("%v", s)
		}
	})
}

// TestRemoteFetchFromTier fetches from a real tier with the replica's ticket, exactly once per
// request ID.
func TestRemoteFetchFromTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := playRemote(t)
		w := &fakeDataPlane{got: map[uint32][]byte{}}
		s := playIn(t, a.sys, kvblock.TierConfig{Name: "dram", Store: newStore(t, 3), DataPlane: w})
		s.stock(1, 2)
		m := a.fetch("a", time.Second, 1, 2, 9)
		m.From, m.Ticket.Bytes = a.run(s.tier), 2*blockBytes
		w.mu.Lock() // keeps the first fetch in flight when the second arrives
		a.replica.Send(a.remote, m)
		a.replica.Send(a.remote, m)
		w.mu.Unlock()
		a.expect("it has ended", 0, 0)
		if r := results(a.replica); r["a"] != "2" || len(w.got) != 2 || s.status().GetLent() != 2 {
			t.Errorf("results %v, %d chunks arrived", r, len(w.got))
		}
		m = a.fetch("b", time.Second, 1)
		m.Hashes[0] = m.GetHashes()[0][:3]
		a.replica.Send(a.remote, m)
		a.expect("it is nonsense", 0, 0)
		if r := results(a.replica); r["b"] != "INVALID_ARGUMENT" {
			t.Errorf("%v", r)
		}
	})
}

// TestRemoteFetchesWaitForCapacity checks that fetches beyond the capacity wait in order, and are
// refused at their deadline or if too many wait.
func TestRemoteFetchesWaitForCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := playRemote(t)
		a.replica.Send(a.remote, a.fetch("a", 10*time.Second, 1, 2))
		a.other.Send(a.remote, a.fetch("b", 2*time.Second, 1, 2)) // two replicas fetch the same blocks
		a.other.Send(a.remote, a.fetch("c", 20*time.Second, 3))
		a.other.Send(a.remote, a.fetch("d", 20*time.Second, 4))
		a.expect("two blocks fit", 1, 3)
		if s := a.status(); s.GetArriving() != 4 || len(testkit.Got[*messages.LeaseBlocks](a.holder)) != 1 {
			t.Errorf("%v", s)
		}
		a.other.Send(a.remote, &messages.ReleaseBlocks{RequestId: "d"})
		a.expect("the requester no longer waits", 1, 2)
		time.Sleep(4 * time.Second)
		a.expect("the time of one is up", 1, 1)
		if r := results(a.other); r["b"] != "DEADLINE" || len(r) != 1 {
			t.Errorf("%v", r)
		}
		for i := range 100 {
			a.other.Send(a.remote, a.fetch(fmt.Sprint("many-", i), 30*time.Second, 5))
		}
		a.expect("there are too many", 1, 64)
		full := testkit.Got[*messages.FetchBlocksResult](a.other)
		if last := full[len(full)-1].GetRefused(); results(a.other)["many-99"] != "QUEUE_FULL" ||
			!strings.Contains(last.GetDetail(), "--kv-remote") || last.GetRetryAfter() == nil {
			t.Errorf("%v", last)
		}
		a.setReply(sent(1))
		time.Sleep(8 * time.Second) // the first fetch times out without an answer
		a.expect("all the others came", 0, 0)
		if r := results(a.other); r["c"] != "1" || r["many-0"] != "1" || results(a.replica)["a"] != "DEADLINE" {
			t.Errorf("%v, %v", r, results(a.replica))
		}
	})
}

// TestRemoteFetchLargerThanCapacityRunsAlone checks that a fetch larger than the capacity runs
// alone instead of being refused.
func TestRemoteFetchLargerThanCapacityRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := playRemote(t)
		a.setReply(sent(4))
		a.replica.Send(a.remote, a.fetch("a", time.Second, 1, 2, 3, 4))
		a.expect("it came", 0, 0)
		if r := results(a.replica); r["a"] != "4" {
			t.Errorf("%v", r)
		}
	})
}

// TestRemoteHolderFaultFailsOnlyItsFetch checks that a holder that refuses, is gone or crashes
// during the transfer fails only its own fetch. A holder that does not answer is asked to stop
// sending.
func TestRemoteHolderFaultFailsOnlyItsFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := playRemote(t)
		a.setReply(func(l *messages.LeaseBlocks) *messages.LeaseBlocksResult {
			return &messages.LeaseBlocksResult{RequestId: l.GetRequestId(),
				Outcome: &messages.LeaseBlocksResult_Refused{
					Refused: &messages.Refused{Reason: messages.Reason_REASON_QUEUE_FULL},
				}}
		})
		a.replica.Send(a.remote, a.fetch("refuses", time.Second, 1))
		a.expect("refused", 0, 0)
		a.reply.Store(nil)
		a.replica.Send(a.remote, a.fetch("dies", time.Second, 1, 2))
		a.replica.Send(a.remote, a.fetch("next", 10*time.Second, 3))
		a.expect("one is under way", 1, 1)
		a.setReply(sent(1))
		time.Sleep(2 * time.Second)
		a.expect("it died", 0, 0)
		if ids := a.released(); len(ids) != 1 || ids[0] != "dies" {
			t.Errorf("released: %v", ids)
		}
		a.holder.Stop()
		began := time.Now()
		a.replica.Send(a.remote, a.fetch("gone", 10*time.Second, 1))
		if a.expect("it is gone", 0, 0); time.Since(began) > time.Second {
			t.Errorf("detected after %v", time.Since(began))
		}
		want := map[string]string{"refuses": "QUEUE_FULL", "dies": "DEADLINE", "next": "1", "gone": "NODE_LOST"}
		if got := results(a.replica); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestRemoteLeaseDurationAndRelease checks that a lease lasts only as long as the replica waits,
// and is released when the replica stops waiting.
func TestRemoteLeaseDurationAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := playRemote(t)
		a.replica.Send(a.remote, a.fetch("a", 3*time.Second, 1, 2))
		a.replica.Send(a.remote, a.fetch("b", 10*time.Second, 3))
		time.Sleep(time.Second)
		a.replica.Send(a.remote, &messages.ReleaseBlocks{RequestId: "a"})
		if a.expect("the holder has not let go", 1, 1); len(a.released()) != 1 {
			t.Errorf("released: %v", a.released())
		}
		time.Sleep(2500 * time.Millisecond)
		a.expect("the lease has ended", 1, 0)
		leases := testkit.Got[*messages.LeaseBlocks](a.holder)
		if len(leases) != 2 || leases[0].GetLease().AsDuration() != 3*time.Second ||
			leases[1].GetLease().AsDuration() != 7*time.Second || leases[1].GetTicket().GetTransfer() != "b" {
			t.Errorf("%v", leases)
		}
		if r := results(a.replica); len(r) != 0 {
			t.Errorf("results %v after the release", r)
		}
	})
}

// delayFirstLease delays the message that ends the first lease job.
func delayFirstLease(by time.Duration) actor.ReceiverMiddleware {
	var seen atomic.Bool
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			if fmt.Sprintf("%T", env.Message) != "*kvblock.leaseDone" || seen.Swap(true) {
				next(ctx, env)
				return
			}
			note, self, root := env.Message, ctx.Self(), ctx.ActorSystem().Root
			time.AfterFunc(by, func() { root.Send(self, note) })
		}
	}
}

// TestRemoteCrashFailsFetchesInFlight checks that a crash fails the fetches in flight at once, and
// that late results change nothing.
func TestRemoteCrashFailsFetchesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.BlocksFetched", Times: 1}
		a := playRemote(t, crash.Middleware, delayFirstLease(5*time.Second))
		a.replica.Send(a.remote, a.fetch("a", 5*time.Second, 1, 2))
		a.other.Send(a.remote, a.fetch("b", 5*time.Second, 3))
		a.expect("before", 1, 1)
		a.replica.Send(a.remote, &messages.BlocksFetched{})
		a.expect("after", 0, 0)
		if ra, rb := results(a.replica), results(a.other); crash.Crashed() != 1 || ra["a"] != "NOT_READY" ||
			rb["b"] != "NOT_READY" {
			t.Errorf("%v, %v", ra, rb)
		}
		if ids := a.released(); len(ids) != 1 || ids[0] != "a" {
			t.Errorf("released: %v", ids)
		}
		a.replica.Send(a.remote, a.fetch("a", 10*time.Second, 1, 2)) // same request ID
		a.expect("once more", 1, 0)
		time.Sleep(6 * time.Second) // the lease of the earlier incarnation has ended
		a.expect("the late word", 1, 0)
		if r := results(a.replica); r["a"] != "NOT_READY" {
			t.Errorf("%v", r)
		}
	})
}
