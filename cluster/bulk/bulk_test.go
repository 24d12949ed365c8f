package bulk_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"troupe/cluster/bulk"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("25") // a check waits for sockets, not for the CPU
	}
	goleak.VerifyTestMain(m)
}

// listen opens a plane that closes with the test.
func listen(t testing.TB, cfg bulk.Config) *bulk.Plane {
	t.Helper()
	p, err := bulk.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// expect opens a transfer.
func expect(
	t testing.TB,
	p *bulk.Plane,
	chunkBytes int,
	chunks uint32,
	put func(uint32, []byte) error,
) *messages.BulkTicket {
	t.Helper()
	ticket, err := p.Expect(chunkBytes, chunks, put)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// Defaults of bulk.Config.
const (
	expireAfter = time.Minute
	sinkTimeout = 30 * time.Second
	idleAfter   = time.Minute
)

// content returns chunks of random bytes and random lengths.
func content(seed uint64, chunks, longest int) [][]byte {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	all := make([][]byte, chunks)
	for i := range all {
		all[i] = make([]byte, r.Uint64()%uint64(longest+1))
		_, _ = r.Read(all[i])
	}
	return all
}

// inMemory returns a view of chunks for SendInPlace. A chunk that is large enough has two parts.
func inMemory(chunks [][]byte) func(uint32, func(...[]byte) error) error {
	return func(i uint32, use func(...[]byte) error) error {
		if split := len(chunks[i]) - bulk.SealBytes; split >= 0 {
			return use(chunks[i][:split], chunks[i][split:])
		}
		return use(chunks[i])
	}
}

func from(chunks [][]byte) func(uint32, []byte) (int, error) {
	return func(i uint32, into []byte) (int, error) { return copy(into, chunks[i]), nil }
}

func all(n int) []uint32 {
	indices := make([]uint32, n)
	for i := range indices {
		indices[i] = uint32(i)
	}
	return indices
}

// sink stores the chunks of a test. It rejects a chunk that is put twice and concurrent puts.
type sink struct {
	busy atomic.Bool
	got  map[uint32][]byte
}

func newSink() *sink { return &sink{got: map[uint32][]byte{}} }

func (a *sink) put(index uint32, b []byte) error {
	if !a.busy.CompareAndSwap(false, true) {
		return errors.New("put runs concurrently")
	}
	defer a.busy.Store(false)
	if _, twice := a.got[index]; twice {
		return fmt.Errorf("chunk %d was put twice", index)
	}
	a.got[index] = bytes.Clone(b)
	return nil
}

func (a *sink) compare(want [][]byte) error {
	if len(a.got) != len(want) {
		return fmt.Errorf("received %d chunks, want %d", len(a.got), len(want))
	}
	for i, b := range want {
		if !bytes.Equal(a.got[uint32(i)], b) {
			return fmt.Errorf("chunk %d differs from the one sent", i)
		}
	}
	return nil
}

// TestSend sends a transfer in several parts, with repeats, over one connection.
func TestSend(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{})
	want, got := content(1, 100, 100_000), newSink()
	ticket := expect(t, b, 100_000, 100, got.put)
	if ticket.GetBytes() != 10_000_000 {
		t.Errorf("the ticket is for %d bytes", ticket.GetBytes())
	}
	for _, part := range [][]uint32{{5, 5, 99}, all(100)[:60], all(100)[50:], nil} {
		if err := a.Send(t.Context(), ticket, part, from(want)); err != nil {
			t.Fatal(err)
		}
	}
	b.Drop(ticket)
	if err := got.compare(want); err != nil {
		t.Error(err)
	}
	sent, received := a.Stats().Sent[b.Address()], b.Stats().Received
	if sent.Chunks != 2+60+50 || sent.Retries != 0 || sent.Reconnects != 0 {
		t.Errorf("sent: %+v", sent)
	}
	if received.Chunks != 100 || received.Repeated != 12 || received.Damaged != 0 {
		t.Errorf("received: %+v", received)
	}
	if open := b.Stats(); open.Inbound != 1 || open.Transfers != 0 || a.Stats().Outbound != 1 {
		t.Errorf("want one open connection and no transfer: %+v", open)
	}
}

// TestIdle checks that an idle connection is closed, also after a cancelled Send, and that another
// one is opened when needed.
func TestIdle(t *testing.T) {
	later := clock.New()
	a, b := listen(t, bulk.Config{Runtime: later}), listen(t, bulk.Config{})
	for range 2 {
		sink := newBlockingSink()
		ticket := expect(t, b, 10, 2, sink.put)
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error)
		go func() { sent <- a.Send(ctx, ticket, all(2), from(content(1, 2, 10))) }()
		<-sink.entered
		cancel()
		if err := <-sent; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(sink.release)
		testkit.Until(t, "the connection to be closed", func() bool {
			later.Advance(idleAfter / 4)
			return a.Stats().Outbound == 0 && b.Stats().Inbound == 0
		})
	}
}
