package bulk_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/bulk"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// mustNotPut returns a put that fails the test.
func mustNotPut(t *testing.T) func(uint32, []byte) error {
	return func(i uint32, _ []byte) error {
		t.Errorf("chunk %d was put", i)
		return nil
	}
}

func TestRefusesBadTickets(t *testing.T) {
	a, patient := listen(t, bulk.Config{}), listen(t, bulk.Config{})
	later := clock.New()
	expiring := listen(t, bulk.Config{Runtime: later})
	other := expect(t, listen(t, bulk.Config{}), 10, 4, mustNotPut(t))
	keep := func(*messages.BulkTicket) {}
	for name, spoil := range map[string]func(*messages.BulkTicket){
		"wrong token":      func(ticket *messages.BulkTicket) { ticket.Token[31] ^= 1 },
		"foreign transfer": func(ticket *messages.BulkTicket) { ticket.Transfer = other.GetTransfer() },
		"foreign token":    func(ticket *messages.BulkTicket) { ticket.Token = other.GetToken() },
		"token cut short":  func(ticket *messages.BulkTicket) { ticket.Token = ticket.Token[:16] },
		"no transfer":      func(ticket *messages.BulkTicket) { ticket.Transfer = "x" },
		"dropped":          func(ticket *messages.BulkTicket) { patient.Drop(ticket) },
		"expired": func(*messages.BulkTicket) {
			testkit.Until(t, "the transfer to expire", func() bool {
				later.Advance(expireAfter / 4)
				return expiring.Stats().Transfers == 0
			})
		},
		"chunk past the end": keep,
		"valid ticket":       keep,
	} {
		t.Run(name, func(t *testing.T) {
			b, put, indices, want := patient, mustNotPut(t), []uint32{0}, bulk.ErrRefused
			switch name {
			case "expired":
				b = expiring
			case "chunk past the end":
				indices = []uint32{0, 4}
			case "valid ticket":
				put, want = func(uint32, []byte) error { return nil }, nil
			}
			ticket := expect(t, b, 10, 4, put)
			defer b.Drop(proto.CloneOf(ticket))
			spoil(ticket)
			if err := a.Send(t.Context(), ticket, indices, from(content(1, 5, 10))); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

func TestExpectChecksChunkSize(t *testing.T) {
	p := listen(t, bulk.Config{Window: 1 << 20})
	for _, chunkBytes := range []int{-1, 0, 1 << 20, bulk.MaxChunkBytes + 1} {
		if _, err := p.Expect(chunkBytes, 1, mustNotPut(t)); err == nil {
			t.Errorf("a transfer with chunks of %d bytes was accepted", chunkBytes)
		}
	}
	p.Close()
	if _, err := p.Expect(1, 1, mustNotPut(t)); !errors.Is(err, bulk.ErrClosed) {
		t.Errorf("on a closed plane: %v", err)
	}
}

func TestSinkFails(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{})
	puts := 0
	ticket := expect(t, b, 1000, 100, func(i uint32, _ []byte) error {
		if puts++; i == 3 {
			return errors.New("no block 7")
		}
		return nil
	})
	for range 2 { // the second Send fails too
		err := a.Send(t.Context(), ticket, all(100), from(content(1, 100, 1000)))
		if !errors.Is(err, bulk.ErrSink) || !strings.Contains(err.Error(), "chunk 3: no block 7") {
			t.Errorf("%v", err)
		}
	}
	b.Drop(ticket)
	if puts != 4 {
		t.Errorf("put was called %d times, want 4: it failed at the 4th", puts)
	}
}

// TestReadFails fails read while a chunk is in flight, more often than the window has room for
// unsent chunks. A batch is one chunk.
func TestReadFails(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{Window: 3 << 20})
	broken := errors.New("no such block")
	for range 30 {
		sink := newBlockingSink()
		ticket := expect(t, b, 150_000, 9, sink.put)
		err := a.Send(t.Context(), ticket, all(9), func(i uint32, into []byte) (int, error) {
			if i == 0 {
				return 1, nil
			}
			<-sink.entered
			return 0, broken
		})
		if !errors.Is(err, broken) {
			t.Fatalf("got %v, want the error of read", err)
		}
		close(sink.release)
		tooLong := func(uint32, []byte) (int, error) { return 150_001, nil }
		if err := a.Send(t.Context(), ticket, []uint32{1}, tooLong); err == nil {
			t.Error("read returned more than fits and Send succeeded")
		}
	}
}

// blockingSink is a put that blocks until it is released.
type blockingSink struct {
	entered chan uint32
	release chan struct{}
}

func newBlockingSink() *blockingSink {
	return &blockingSink{make(chan uint32, 1000), make(chan struct{})}
}

func (b *blockingSink) put(i uint32, _ []byte) error {
	b.entered <- i
	<-b.release
	return nil
}

// TestSlowSinks blocks sinks that could each fill the window, and checks that another is served.
func TestSlowSinks(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{Window: 1 << 20})
	slow := newBlockingSink()
	var running sync.WaitGroup
	for range 24 {
		ticket := expect(t, b, 10_000, 100, slow.put)
		running.Go(func() {
			if err := a.Send(t.Context(), ticket, all(100), from(content(1, 100, 10_000))); err != nil {
				t.Error(err)
			}
		})
		<-slow.entered
	}
	got, want := newSink(), content(2, 100, 10_000)
	ticket := expect(t, b, 10_000, 100, got.put)
	if err := a.Send(t.Context(), ticket, all(100), from(want)); err != nil {
		t.Error(err)
	}
	if err := got.compare(want); err != nil {
		t.Error(err)
	}
	go func() {
		for range slow.entered {
		}
	}()
	close(slow.release)
	running.Wait()
	close(slow.entered)
}

// TestHungSink fails the transfer of a put that does not return, and frees its space in the window.
func TestHungSink(t *testing.T) {
	later := clock.New()
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{Window: 64 << 10, Runtime: later})
	hung := newBlockingSink()
	defer close(hung.release)
	for range 10 {
		ticket := expect(t, b, 10_000, 20, hung.put)
		sent := make(chan error, 1)
		go func() { sent <- a.Send(t.Context(), ticket, all(20), from(content(1, 20, 10_000))) }()
		<-hung.entered
		testkit.Until(t, "the transfer to end", func() bool {
			later.Advance(sinkTimeout / 4)
			return len(sent) > 0
		})
		if err := <-sent; !errors.Is(err, bulk.ErrSink) {
			t.Fatalf("%v", err)
		}
	}
}

// TestDropWaits: Drop waits for a running put, and put is not called again.
func TestDropWaits(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{})
	entered, let := make(chan struct{}), make(chan struct{})
	puts, returned := 0, false
	ticket := expect(t, b, 100, 50, func(uint32, []byte) error {
		if puts++; puts == 1 {
			close(entered)
			<-let
			returned = true
		}
		return nil
	})
	sent, dropped := make(chan error), make(chan struct{})
	go func() { sent <- a.Send(t.Context(), ticket, all(50), from(content(1, 50, 100))) }()
	<-entered
	go func() {
		defer close(dropped)
		if b.Drop(ticket); !returned {
			t.Error("Drop returned while put ran")
		}
	}()
	if err := <-sent; !errors.Is(err, bulk.ErrRefused) {
		t.Errorf("%v", err)
	}
	close(let)
	<-dropped
	if puts != 1 {
		t.Errorf("put was called %d times", puts)
	}
}

// TestCancelledSends cancels sends that fill the window, repeatedly. The connection still serves
// the next send.
func TestCancelledSends(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{Window: 100_000})
	for range 20 {
		sink := newBlockingSink()
		ticket := expect(t, b, 5_000, 50, sink.put)
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error)
		go func() { sent <- a.Send(ctx, ticket, all(50), from(content(1, 50, 5_000))) }()
		<-sink.entered
		cancel()
		if err := <-sent; !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
		close(sink.release)
	}
	if s := a.Stats().Sent[b.Address()]; s.Reconnects != 0 || a.Stats().Outbound != 1 {
		t.Errorf("the connection was lost: %+v", s)
	}
}

// TestReceiverCloses closes the receiver during transfers. The sender learns of it in every state.
func TestReceiverCloses(t *testing.T) {
	a := listen(t, bulk.Config{})
	var ticket *messages.BulkTicket
	zeros := func(_ uint32, into []byte) (int, error) { return len(into), nil }
	for range 10 {
		b := listen(t, bulk.Config{})
		var once sync.Once
		closed := make(chan struct{})
		ticket = expect(t, b, 1000, 10_000, func(uint32, []byte) error {
			once.Do(func() { go func() { b.Close(); close(closed) }() })
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error, 1)
		go func() { sent <- a.Send(ctx, ticket, all(10_000), zeros) }()
		<-closed
		testkit.Until(t, "the end of the transfer, or a sender that does not learn of it", func() bool {
			return len(sent) > 0 || a.Stats().Sent[b.Address()].Reconnects > 3
		})
		cancel()
		if err := <-sent; !errors.Is(err, bulk.ErrRefused) {
			t.Errorf("%v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	tried := a.Stats().Sent[ticket.GetAddress()].Reconnects
	sent := make(chan error)
	go func() { sent <- a.Send(ctx, ticket, all(1), zeros) }()
	testkit.Until(t, "another try", func() bool { return a.Stats().Sent[ticket.GetAddress()].Reconnects > tried+1 })
	cancel()
	if err := <-sent; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("send to a closed node: %v", err)
	}
}

// TestSenderCloses closes the sender during a transfer.
func TestSenderCloses(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{})
	sink := newBlockingSink()
	ticket := expect(t, b, 1000, 10, sink.put)
	sent := make(chan error)
	go func() { sent <- a.Send(t.Context(), ticket, all(10), from(content(1, 10, 1000))) }()
	<-sink.entered
	a.Close()
	if err := <-sent; !errors.Is(err, bulk.ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := a.Send(t.Context(), ticket, all(10), from(content(1, 10, 1000))); !errors.Is(err, bulk.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	close(sink.release)
	testkit.Until(t, "the receiver to see the end", func() bool { return b.Stats().Inbound == 0 })
}
