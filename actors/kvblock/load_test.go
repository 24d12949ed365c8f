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
	"troupe/engine/tier"
	"troupe/messages"
	"troupe/testkit"
)

// moody is a store whose writes take a while, and fail now and then.
type moody struct {
	tier.Store
	calm atomic.Bool
	mu   sync.Mutex
	rand *rand.Rand
}

func (m *moody) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	m.mu.Lock()
	wait, fails := time.Duration(m.rand.IntN(30))*time.Millisecond, m.rand.IntN(20) == 0 && !m.calm.Load()
	m.mu.Unlock()
	time.Sleep(wait) // of the test's own time
	if fails {
		return syscall.EIO
	}
	return m.Store.Fill(ctx, slot, h, bytes, from)
}

// of is a block of a number: every third one is large.
func of(n int) []byte {
	block := make([]byte, blockBytes)
	if n%3 == 0 {
		block = make([]byte, largeBytes)
	}
	for i := range block {
		block[i] = byte(n + i)
	}
	return block
}

// user writes and reads blocks as replicas do, and now and then leaves off in the middle.
type user struct {
	*stage
	rand  *rand.Rand
	name  string
	wrong func(format string, args ...any)
	found *atomic.Int64 // blocks that it was given to read
}

func (u *user) request(m proto.Message) any {
	answer, err := u.sys.Root.RequestFuture(u.tier, m, 2*time.Second).Result()
	if err != nil {
		return nil // it crashed
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

// write takes some blocks of one size down.
func (u *user) write(ctx context.Context, id string, n int) {
	numbers := []int{n, n + 3, n + 6}
	commit := &messages.CommitBlocks{RequestId: id}
	defer func() { u.sys.Root.Send(u.tier, commit) }()
	r, ok := u.request(&messages.ReserveSlots{RequestId: id, Hashes: hashes(numbers...), BlockBytes: uint64(len(of(n)))}).(*messages.ReserveSlotsResult)
	if !ok {
		return
	}
	var written [][]byte
	for _, b := range r.GetReserved().GetSlots() {
		for _, k := range numbers {
			if h := hash(k); bytes.Equal(h[:], b.GetHash()) && u.store.Write(ctx, int32(b.GetIndex()), h, of(k)) == nil {
				written = append(written, b.GetHash())
			}
		}
	}
	commit = &messages.CommitBlocks{RequestId: id, Written: written}
}

// read looks for a block, which is either not there or right.
func (u *user) read(ctx context.Context, id string, n int) {
	r, ok := u.request(&messages.LockBlocks{RequestId: id, Hashes: hashes(n)}).(*messages.LockBlocksResult)
	unlock := &messages.UnlockBlocks{RequestId: id}
	u.found.Add(int64(len(r.GetLocked())))
	for _, b := range r.GetLocked() {
		time.Sleep(time.Duration(u.rand.IntN(100)) * time.Millisecond)
		into, want := make([]byte, len(of(n))), of(n)
		err := u.store.Read(ctx, int32(b.GetIndex()), hash(n), into)
		switch {
		case errors.Is(err, tier.ErrDamaged):
			unlock.Damaged = append(unlock.Damaged, b.GetHash())
		case err == nil && !bytes.Equal(into, want):
			u.wrong("block %d is another", n)
		}
	}
	if ok {
		u.sys.Root.Send(u.tier, unlock)
	}
}

// TestTiersUnderLoad: with two sizes of block, users that read, write, pin and flush, writes that are slow or fail, and crashes of either tier, every block that can be
// read is right; and once it is quiet nothing is locked, arriving or on its way.
func TestTiersUnderLoad(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &moody{rand: rand.New(rand.NewPCG(seed, 0))}
				crash := func(every int64) actor.ReceiverMiddleware {
					var seen atomic.Int64
					return func(next actor.ReceiverFunc) actor.ReceiverFunc {
						return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
							if _, steps := env.Message.(*messages.StepsDone); steps && seed%2 == 1 && seen.Add(1)%every == 0 {
								panic("testkit: injected crash")
							}
							next(ctx, env)
						}
					}
				}
				p := playTiers(t, func(s tier.Store) tier.Store { m.Store = s; return m }, crash(40), testkit.Wire)
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
					if st := s.status(); seed%2 == 0 && st.GetDamaged() > 0 || st.GetArriving()+st.GetLeaving()+st.GetPinned() != 0 || st.GetFree()+st.GetResident() != st.GetSlots() {
						t.Errorf("%v", st)
					}
				}
				if st := p.status(); found.Load() == 0 || seed%2 == 0 && (st.GetDepartures() == 0 || st.GetHits() == 0) { // a crash begins to count anew
					t.Errorf("%d blocks were read: %v", found.Load(), st)
				}
			})
		})
	}
}
