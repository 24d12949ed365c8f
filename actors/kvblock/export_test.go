package kvblock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/kvblock"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/testkit"
)

// fakeDataPlane records what is sent. It stalls on request.
type fakeDataPlane struct {
	mu    sync.Mutex
	stall bool
	got   map[uint32][]byte
	order []uint32
}

func (w *fakeDataPlane) Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
	read func(uint32, []byte) (int, error)) error {
	w.mu.Lock()
	stall := w.stall
	w.mu.Unlock()
	for _, i := range indices {
		if stall {
			<-ctx.Done()
			return ctx.Err()
		}
		chunk := make([]byte, to.GetBytes())
		n, err := read(i, chunk)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.got[i], w.order = chunk[:n], append(w.order, i)
		w.mu.Unlock()
	}
	return nil
}

func (w *fakeDataPlane) SendInPlace(ctx context.Context, to *messages.BulkTicket, indices []uint32,
	view func(uint32, func(...[]byte) error) error) error {
	return w.Send(ctx, to, indices, func(index uint32, into []byte) (n int, err error) {
		err = view(index, func(parts ...[]byte) error { n = copy(into, slices.Concat(parts...)); return nil })
		return n, err
	})
}

func (w *fakeDataPlane) setStall(yes bool) { w.mu.Lock(); defer w.mu.Unlock(); w.stall = yes }

// namespace identifies the weights. Tiers include it in the hashes of blocks, and replicas do not.
var namespace = kv.Root("space", "", nil)

func namespaced(n int) kv.Hash { return hash(n).Namespaced(namespace) }

// stock writes blocks to the tier as a replica does.
func (s *stage) stock(numbers ...int) {
	s.t.Helper()
	s.asked++
	id := fmt.Sprint("stock-", s.asked)
	m := &messages.ReserveSlots{RequestId: id, BlockBytes: blockBytes}
	for _, n := range numbers {
		h := namespaced(n)
		m.Hashes = append(m.Hashes, h[:])
	}
	commit := &messages.CommitBlocks{RequestId: id}
	for i, b := range s.ask(m).(*messages.ReserveSlotsResult).GetReserved().GetSlots() {
		if err := s.store.Write(s.t.Context(), int32(b.GetIndex()), namespaced(numbers[i]),
			content(numbers[i])); err != nil {
			s.t.Fatal(err)
		}
		commit.Written = append(commit.Written, b.GetHash())
	}
	s.sys.Root.Send(s.tier, commit)
}

func lease(id string, d time.Duration, numbers ...int) *messages.LeaseBlocks {
	return &messages.LeaseBlocks{RequestId: id, Hashes: hashes(numbers...), Space: namespace[:],
		BlockBytes: blockBytes, Lease: durationpb.New(d),
		Ticket: &messages.BulkTicket{Bytes: blockBytes + kvstore.SealBytes}}
}

// playExportable starts a tier of three slots with blocks 1, 2 and 3.
func playExportable(t *testing.T) (*stage, *fakeDataPlane, *testkit.Peer) {
	w := &fakeDataPlane{got: map[uint32][]byte{}}
	s := play(t, kvblock.TierConfig{Name: "dram", Store: newStore(t, 3), DataPlane: w})
	s.stock(1, 2, 3)
	return s, w, testkit.NewPeer(t, s.sys, "reader", nil)
}

var whole = kvstore.Chunks{Blocks: 1, BlockBytes: blockBytes}

// unseal returns the part of a block in a chunk, and whether its seal is valid.
func unseal(c kvstore.Chunks, h kv.Hash, part int, sealed []byte) (b []byte, ok bool) {
	sum, end := c.SealHash(h, part), len(sealed)-kvstore.SealBytes
	_, _ = sum.Write(sealed[:end])
	return c.Trim(part, sealed), string(sum.Sum(nil)) == string(sealed[end:])
}

// TestExportSendsFirstPartsFirst checks that an export in parts sends the first part of all present
// blocks before the other parts.
func TestExportSendsFirstPartsFirst(t *testing.T) {
	for name, store := range map[string]func(kvstore.Store) kvstore.Store{
		"from memory":   func(s kvstore.Store) kvstore.Store { return s },
		"from the disk": func(s kvstore.Store) kvstore.Store { return struct{ kvstore.Store }{s} }, // hides InMemory
	} {
		t.Run(name, func(t *testing.T) { exportByParts(t, store(newStore(t, 3))) })
	}
}

func exportByParts(t *testing.T, store kvstore.Store) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeDataPlane{got: map[uint32][]byte{}}
		s := play(t, kvblock.TierConfig{Name: "dram", Store: store, DataPlane: w})
		s.stock(1, 2, 3)
		m := lease("a", time.Second, 1, 2, 9, 3)
		m.PartBytes = 40
		if r := s.ask(m).(*messages.LeaseBlocksResult); r.GetSent().GetBlocks() != 2 ||
			!slices.Equal(w.order, []uint32{0, 1, 4, 5, 8, 9}) {
			t.Fatalf("result %v, sent %v", r, w.order)
		}
		parts := kvstore.Chunks{Blocks: 4, BlockBytes: blockBytes, PartBytes: 40}
		for index, sealed := range w.got {
			i, part := parts.BlockPart(index)
			from, to := parts.PartRange(part)
			if b, ok := unseal(parts, namespaced(i+1), part, sealed); !ok ||
				string(b) != string(content(i + 1)[from:to]) {
				t.Errorf("part %d of block %d is damaged", part, i)
			}
		}
	})
}

// TestExportSendsLeadingBlocks checks that the leading present blocks are sent, each with its seal.
// A damaged one is dropped and not counted as sent.
func TestExportSendsLeadingBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, _ := playExportable(t)
		if r := s.ask(lease("a", time.Second, 1, 2, 9,
			3)).(*messages.LeaseBlocksResult); r.GetSent().GetBlocks() != 2 || len(w.got) != 2 {
			t.Fatalf("result %v, %d chunks sent", r, len(w.got))
		}
		for i, sealed := range w.got {
			if part, ok := unseal(whole, namespaced(int(i)+1), 0, sealed); !ok ||
				string(part) != string(content(int(i)+1)) {
				t.Errorf("block %d is damaged", i)
			}
			if _, ok := unseal(whole, namespaced(7), 0, sealed); ok {
				t.Errorf("the seal of block %d is valid for another block", i)
			}
		}
		if st := s.status(); st.GetLent() != 2 {
			t.Errorf("%v", st)
		}
		for _, held := range s.store.Held() {
			if held.Hash == namespaced(2) {
				if err := s.store.Erase(t.Context(), []int32{held.Slot}); err != nil { // unknown to its tier
					t.Fatal(err)
				}
			}
		}
		if r := s.ask(lease("b", time.Second, 1, 2,
			3)).(*messages.LeaseBlocksResult); r.GetRefused().GetReason() != messages.Reason_REASON_INTERNAL {
			t.Errorf("%v", r)
		}
		if st := s.status(); st.GetDamaged() != 1 || st.GetResident() != 2 || st.GetFree() != 1 {
			t.Errorf("%v", st)
		}
	})
}

// TestExportLocksBlocksUntilLeaseEnds checks that exported blocks are not evicted until the lease
// is released or expires, however long a lease was requested.
func TestExportLocksBlocksUntilLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, reader := playExportable(t)
		w.setStall(true)
		room := func() int { // slots available for other blocks
			s.asked++
			id := fmt.Sprint("room-", s.asked)
			r := s.ask(&messages.ReserveSlots{RequestId: id, Hashes: hashes(100+s.asked, 200+s.asked, 300+s.asked),
				BlockBytes: blockBytes})
			s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: id})
			return len(r.(*messages.ReserveSlotsResult).GetReserved().GetSlots())
		}
		reader.Send(s.tier, lease("first", 3*time.Second, 1))
		reader.Send(s.tier, lease("first", 3*time.Second, 1)) // repeated request
		reader.Send(s.tier, lease("second", 1000*time.Hour, 2))
		if synctest.Wait(); room() != 1 {
			t.Fatal("two of three blocks are locked, but more than one slot was handed out")
		}
		time.Sleep(2900 * time.Millisecond)
		if room() != 1 {
			t.Error("a lease ended early")
		}
		time.Sleep(200 * time.Millisecond)
		if room() != 2 {
			t.Error("an expired lease still locks its block")
		}
		time.Sleep(10 * time.Second)
		if room() != 3 {
			t.Error("a lease without end never expires")
		}
		s.stock(1)
		reader.Send(s.tier, lease("third", 5*time.Second, 1))
		if synctest.Wait(); room() != 2 {
			t.Fatal("the slot of a locked block was handed out")
		}
		reader.Send(s.tier, &messages.ReleaseBlocks{RequestId: "third"})
		if synctest.Wait(); room() != 3 {
			t.Error("a released lease still locks its block")
		}
		answers := map[string]int{}
		for _, r := range testkit.Got[*messages.LeaseBlocksResult](reader) {
			answers[r.GetRequestId()]++
		}
		if len(answers) != 3 || answers["first"] != 1 {
			t.Errorf("answers: %v", answers)
		}
	})
}

// TestExportRefusals checks the refusals of a lease; none may crash the tier.
func TestExportRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, reader := playExportable(t)
		w.setStall(true)
		for name, change := range map[string]func(*messages.LeaseBlocks){
			"a hash is none":   func(m *messages.LeaseBlocks) { m.Hashes[0] = []byte("x") },
			"no space":         func(m *messages.LeaseBlocks) { m.Space = nil },
			"no size":          func(m *messages.LeaseBlocks) { m.BlockBytes = 0 },
			"too large":        func(m *messages.LeaseBlocks) { m.BlockBytes = 1 << 20 },
			"too large by far": func(m *messages.LeaseBlocks) { m.BlockBytes = 1 << 63 },
		} {
			m := lease(name, time.Second, 1)
			change(m)
			r := s.ask(m).(*messages.LeaseBlocksResult)
			if r.GetRefused().GetReason() != messages.Reason_REASON_INVALID_ARGUMENT {
				t.Errorf("%s: %v", name, r)
			}
		}
		for i := range 8 {
			reader.Send(s.tier, lease(fmt.Sprint(i), time.Second, 1))
		}
		if r := s.ask(lease("ninth", time.Second,
			1)).(*messages.LeaseBlocksResult); r.GetRefused().GetReason() != messages.Reason_REASON_QUEUE_FULL {
			t.Errorf("%v", r)
		}
		time.Sleep(2 * time.Second)
		w.setStall(false)
		if r := s.ask(lease("tenth", time.Second, 1)).(*messages.LeaseBlocksResult); r.GetSent().GetBlocks() != 1 {
			t.Errorf("%v", r)
		}
	})
}

// TestRouterLearnsBlocksFromAnnouncements checks that a router that applies the announcements knows
// the tier's blocks, and that a restarted router gets a full announcement.
func TestRouterLearnsBlocksFromAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		router := testkit.NewPeer(t, sys, "router", nil)
		s := playIn(t, sys, kvblock.TierConfig{Name: "dram", Store: newStore(t, 3), Router: router.PID})
		believed := func(from int) map[uint64]bool {
			all := map[uint64]bool{}
			for i, m := range testkit.Got[*messages.TierAnnounced](router)[from:] {
				if m.GetSnapshot() != (i == 0) || m.GetName() != "dram" || m.GetActor().GetId() != s.tier.GetId() {
					t.Errorf("announcement %d: %v", i, m)
				}
				for _, b := range m.GetEvicted() {
					delete(all, b)
				}
				for _, b := range m.GetCommitted() {
					all[b] = true
				}
			}
			return all
		}
		expect := func(from int, numbers ...int) {
			t.Helper()
			time.Sleep(time.Second)
			got := believed(from)
			for _, n := range numbers {
				if !got[namespaced(n).Fingerprint64()] {
					t.Errorf("block %d was not announced", n)
				}
			}
			if len(got) != len(numbers) {
				t.Errorf("%d blocks announced, want %d", len(got), len(numbers))
			}
		}
		s.stock(1, 2)
		expect(0, 1, 2)
		s.stock(3, 4) // evicts one of the others
		expect(0, 2, 3, 4)
		told := len(testkit.Got[*messages.TierAnnounced](router))
		time.Sleep(time.Minute)
		if n := len(testkit.Got[*messages.TierAnnounced](router)); n != told {
			t.Errorf("%d announcements without a change", n-told)
		}
		router.Send(s.tier, &messages.GetSlots{})
		expect(told, 2, 3, 4)
	})
}
