package kvblock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/testkit"
)

// faultyStore is a store whose writes are slow and sometimes fail.
type faultyStore struct {
	kvstore.Store
	calm atomic.Bool
	mu   sync.Mutex
	rand *rand.Rand
}

func (m *faultyStore) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	m.mu.Lock()
	wait, fails := time.Duration(m.rand.IntN(30))*time.Millisecond, m.rand.IntN(20) == 0 && !m.calm.Load()
	m.mu.Unlock()
	time.Sleep(wait) // synctest time
	if fails {
		return syscall.EIO
	}
	return m.Store.Fill(ctx, slot, h, bytes, from)
}

// testBlock returns the content of block n; every third block is large.
func testBlock(n int) []byte {
	block := make([]byte, blockBytes)
	if n%3 == 0 {
		block = make([]byte, largeBytes)
	}
	for i := range block {
		block[i] = byte(n + i)
	}
	return block
}

// user writes and reads blocks as a replica does, and sometimes stops in the middle of a request.
type user struct {
	*stage
	rand  *rand.Rand
	name  string
	wrong func(format string, args ...any)
	found *atomic.Int64 // blocks that it could read
}

func (u *user) request(m proto.Message) any {
	answer, err := u.sys.Root.RequestFuture(u.tier, m, 2*time.Second).Result()
	if err != nil {
		return nil // the tier crashed
	}
	return answer
}

func (u *user) run(ctx context.Context, turns int) {
	for turn := range turns {
		id := fmt.Sprintf("%s-%d", u.name, turn)
		switch n := 1 + u.rand.IntN(30); u.rand.IntN(10) {
		case 0, 1, 2, 3:
			u.write(ctx, id, n)
		case 4, 5, 6:
			u.read(ctx, id, n)
		case 7:
			u.sys.Root.Send(u.tier, &messages.StepsDone{Steps: uint32(u.rand.IntN(4))})
		case 8:
			u.sys.Root.Send(u.tier, &messages.PinBlocks{Replica: u.name, Hashes: hashes(n, n+1, n)})
		case 9:
			if u.rand.IntN(5) == 0 {
				u.request(&messages.FlushBlocks{RequestId: id})
			}
		}
		time.Sleep(time.Duration(u.rand.IntN(40)) * time.Millisecond)
	}
	u.sys.Root.Send(u.tier, &messages.PinBlocks{Replica: u.name})
}

// write writes some blocks of one size to the tier.
func (u *user) write(ctx context.Context, id string, n int) {
	numbers := []int{n, n + 3, n + 6}
	commit := &messages.CommitBlocks{RequestId: id}
	defer func() { u.sys.Root.Send(u.tier, commit) }()
	r, ok := u.request(&messages.ReserveSlots{RequestId: id, Hashes: hashes(numbers...),
		BlockBytes: uint64(len(testBlock(n)))}).(*messages.ReserveSlotsResult)
	if !ok {
		return
	}
	var written [][]byte
	for _, b := range r.GetReserved().GetSlots() {
		for _, k := range numbers {
			if h := hash(k); bytes.Equal(h[:], b.GetHash()) &&
				u.store.Write(ctx, int32(b.GetIndex()), h, testBlock(k)) == nil {
				written = append(written, b.GetHash())
			}
		}
	}
	commit = &messages.CommitBlocks{RequestId: id, Written: written}
}

// read reads a block, which must be absent or correct.
func (u *user) read(ctx context.Context, id string, n int) {
	r, ok := u.request(&messages.LockBlocks{RequestId: id, Hashes: hashes(n)}).(*messages.LockBlocksResult)
	unlock := &messages.UnlockBlocks{RequestId: id}
	u.found.Add(int64(len(r.GetLocked())))
	for _, b := range r.GetLocked() {
		time.Sleep(time.Duration(u.rand.IntN(100)) * time.Millisecond)
		into, want := make([]byte, len(testBlock(n))), testBlock(n)
		err := u.store.Read(ctx, int32(b.GetIndex()), hash(n), into)
		switch {
		case errors.Is(err, kvstore.ErrDamaged):
			unlock.Damaged = append(unlock.Damaged, b.GetHash())
		case err == nil && !bytes.Equal(into, want):
			u.wrong("block %d is another", n)
		}
	}
	if ok {
		u.sys.Root.Send(u.tier, unlock)
	}
}

// TestTierConsistencyUnderLoad runs two block sizes, users that read, write, pin and flush, slow
// and failing writes, and crashes of both tiers. Every readable block must be correct. At the end
// nothing may be locked, arriving or in flight.
func TestTierConsistencyUnderLoad(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &faultyStore{rand: rand.New(rand.NewPCG(seed, 0))}
				crash := func(every int64) actor.ReceiverMiddleware {
					var seen atomic.Int64
					return func(next actor.ReceiverFunc) actor.ReceiverFunc {
						return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
							if _, steps := env.Message.(*messages.StepsDone); steps && seed%2 == 1 &&
								seen.Add(1)%every == 0 {
								panic("testkit: injected crash")
							}
							next(ctx, env)
						}
					}
				}
				wrap := func(s kvstore.Store) kvstore.Store { m.Store = s; return m }
				p := playTiers(t, wrap, crash(40), testkit.Wire)
				var users sync.WaitGroup
				var found atomic.Int64
				for i := range uint64(4) {
					u := &user{p.stage, rand.New(rand.NewPCG(seed, i+1)), fmt.Sprint("user-", i), t.Errorf, &found}
					if i == 3 {
						u.stage = p.down
					}
					users.Go(func() { u.run(t.Context(), 300) })
				}
				users.Wait()
				m.calm.Store(true)
				time.Sleep(15 * time.Second)
				for _, s := range []*stage{p.stage, p.down} {
					if st := s.status(); seed%2 == 0 && st.GetDamaged() > 0 ||
						st.GetArriving()+st.GetLeaving()+st.GetPinned() != 0 ||
						st.GetFree()+st.GetResident() != st.GetSlots() {
						t.Errorf("%v", st)
					}
				}
				// a crash resets the counters
				if st := p.status(); found.Load() == 0 || seed%2 == 0 &&
					(st.GetDemotions() == 0 || st.GetHits() == 0) {
					t.Errorf("%d blocks were read: %v", found.Load(), st)
				}
			})
		})
	}
}
