package copier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/model/replica/copier"
	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// noBlocks are blocks that are never copied.
type noBlocks struct{ closed *int }

func (noBlocks) BlockBytes() int                                             { return 64 }
func (noBlocks) Layers() int                                                 { return 1 }
func (noBlocks) Read(context.Context, int32, []byte) error                   { return nil }
func (noBlocks) Write(context.Context, int32, []byte) error                  { return nil }
func (noBlocks) ReadPart(context.Context, int32, int, []byte) error          { return nil }
func (noBlocks) WritePart(context.Context, int32, int, []byte, func()) error { return nil }
func (noBlocks) Mark() (cuda.Event, error)                                   { return nil, nil }
func (b noBlocks) Close() error                                              { *b.closed++; return nil }

const first = 7 // incarnation

// fixture is a copier. The test acts as its replica and its tier.
type fixture struct {
	replica, tier *testkit.Peer
	parent, pid   *actor.PID
	closed        int
}

// newFixture starts a copier. The tier answers after a delay.
func newFixture(t *testing.T, slow time.Duration) *fixture {
	sys, f := testkit.System(t), &fixture{}
	f.replica = testkit.NewPeer(t, sys, "replica", nil)
	f.tier = testkit.NewPeer(t, sys, "dram", func(m proto.Message) proto.Message {
		lock, ok := m.(*messages.LockBlocks)
		if !ok {
			return nil
		}
		time.Sleep(slow)
		return &messages.LockBlocksResult{RequestId: lock.GetRequestId(),
			Locked: []*messages.Block{{Index: 3, Hash: lock.GetHashes()[0]}}}
	})
	child := copier.Props(copier.Config{Incarnation: first, Gate: func(uint64, engine.Gate) {},
		Tiers:      []copier.Tier{{Name: "dram", Actor: f.tier.PID}},
		OpenBlocks: func() (copier.Blocks, error) { return noBlocks{&f.closed}, nil }}).
		Configure(actor.WithReceiverMiddleware(testkit.Wire))
	f.parent = sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch msg := ctx.Message().(type) {
		case *actor.Started:
			f.pid = ctx.Spawn(child)
		case proto.Message:
			if _, system := msg.(actor.SystemMessage); !system {
				ctx.Send(f.replica.PID, msg)
			}
		}
	}, actor.WithSupervisor(supervise.Strategy(nil))))
	t.Cleanup(func() { _ = sys.Root.StopFuture(f.parent).Wait() })
	synctest.Wait()
	return f
}

func (f *fixture) lookUp(number, incarnation uint64) {
	f.replica.Send(f.pid, &messages.LookUpBlocks{Copy: number, Incarnation: incarnation, RequestId: "m-0-1",
		Tiers: []string{"dram"}, Hashes: [][]byte{make([]byte, 16)}, Space: make([]byte, 16),
		Within: durationpb.New(time.Second)})
	synctest.Wait()
}

func (f *fixture) release(number, incarnation uint64) {
	f.replica.Send(f.pid, &messages.ReleaseFoundBlocks{Copy: number, Incarnation: incarnation})
	synctest.Wait()
}

func (f *fixture) unlocked() int { return len(testkit.Got[*messages.UnlockBlocks](f.tier)) }

// TestStaleCommands checks that the copier ignores commands to another incarnation, and ends a lookup
// once.
func TestStaleCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 0)
		ready := testkit.Got[*messages.CopierReady](f.replica)
		if len(ready) != 1 || ready[0].GetIncarnation() != first {
			t.Fatalf("%v", ready)
		}
		if f.lookUp(1, first-1); len(testkit.Got[*messages.LockBlocks](f.tier)) != 0 {
			t.Error("a stale lookup locks blocks")
		}
		f.lookUp(2, first)
		found := testkit.Got[*messages.LookUpBlocksResult](f.replica)
		if len(found) != 1 || found[0].GetCopy() != 2 || len(found[0].GetSources()) != 1 {
			t.Fatalf("%v", found)
		}
		f.release(2, first-1)
		f.replica.Send(f.pid, &messages.CopyFoundBlocks{Copy: 2, Incarnation: first + 1, Blocks: []int32{1}})
		if synctest.Wait(); f.unlocked() != 0 {
			t.Error("a stale command ends the lookup")
		}
		f.release(2, first)
		f.release(2, first)
		if f.unlocked() != 1 {
			t.Errorf("unlocked %d times", f.unlocked())
		}
	})
}

// TestStopUnlocks checks that a copier that stops unlocks the blocks that it has looked up, even if
// the tier answers later, and closes the blocks.
func TestStopUnlocks(t *testing.T) {
	for name, slow := range map[string]time.Duration{
		"after the lookup":  0,
		"during the lookup": 500 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, slow)
				f.lookUp(1, first)
				if err := f.replica.System().Root.StopFuture(f.parent).Wait(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				all := testkit.Got[*messages.UnlockBlocks](f.tier)
				if len(all) == 0 || all[0].GetRequestId() != "m-0-1" || f.closed != 2 { // one handle per direction
					t.Errorf("unlocked: %v, closed %d times", all, f.closed)
				}
				if slow > 0 && len(all) != 2 { // the first one was sent before the blocks were locked
					t.Errorf("unlocked %d times", len(all))
				}
			})
		})
	}
}
