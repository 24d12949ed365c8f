package bulk_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/cluster/bulk"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// fault is applied to one direction of one connection after a number of bytes.
type fault struct {
	kind  string // cut, flip, delay or stall
	after int
	back  bool // in the direction from the receiver
}

// proxy stands between two planes and applies one fault to each of its first connections.
type proxy struct {
	listener net.Listener
	target   string
	later    *clock.Clock
	closed   chan struct{}
	running  sync.WaitGroup

	mu     sync.Mutex
	faults []fault
	conns  []net.Conn
}

func newProxy(t *rapid.T, later *clock.Clock, faults []fault) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &proxy{listener: l, later: later, closed: make(chan struct{}), faults: faults}
}

// start forwards connections to a target.
func (p *proxy) start(target string) {
	p.target = target
	p.running.Go(func() {
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.pass(conn)
		}
	})
}

// pass forwards a connection to the target, with the next fault.
func (p *proxy) pass(from net.Conn) {
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		from.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, from, to)
	var f fault
	if len(p.faults) > 0 {
		f, p.faults = p.faults[0], p.faults[1:]
	}
	there, back := f, f
	if f.back {
		there = fault{}
	} else {
		back = fault{}
	}
	p.running.Go(func() { p.copy(there, from, to) })
	p.running.Go(func() { p.copy(back, to, from) })
}

// copy copies until one end closes. A stalled direction passes nothing more.
func (p *proxy) copy(f fault, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 4096)
	for seen := 0; ; {
		n, err := from.Read(b)
		if at := f.after - seen; f.kind != "" && at >= 0 && at < n {
			switch f.kind {
			case "cut":
				_, _ = to.Write(b[:at])
				return
			case "flip":
				b[at] ^= 1 << (f.after % 8)
			case "delay":
				select {
				case <-p.later.After(silence / 8):
				case <-p.closed:
				}
			case "stall":
				_, _ = io.Copy(io.Discard, from)
				return
			}
		}
		seen += n
		if _, failed := to.Write(b[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (p *proxy) close() {
	p.listener.Close()
	close(p.closed)
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// silence is the SilentAfter of the tests: a stalled connection counts as lost after it.
const silence = 150 * time.Millisecond

// stuckPolls is the number of polls without progress after which a test advances the clock. If that
// was too early because the machine is slow, a connection is lost that need not be.
const stuckPolls = 5

// TestFaults runs concurrent transfers through a faulty network. Each chunk arrives intact and is
// put once. The sockets are real. The clock advances only while no transfer makes progress.
func TestFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{1, 100, 5000, 40_000, 150_000}), 1, 3).Draw(t, "chunk bytes")
		chunks := rapid.IntRange(1, 40).Draw(t, "chunks")
		seals, places := rapid.Bool().Draw(t, "sealed"), rapid.Bool().Draw(t, "in place")
		faults := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fault {
			return fault{
				kind: rapid.SampledFrom(
					[]string{"cut", "cut", "flip", "flip", "flip", "delay", "stall"},
				).Draw(
					t,
					"kind",
				),
				after: rapid.IntRange(0, 1<<rapid.IntRange(4, 20).Draw(t, "range")).Draw(t, "after"),
				back:  rapid.Bool().Draw(t, "back"),
			}
		}), 0, 4).Draw(t, "faults")
		later := clock.New()
		between := newProxy(t, later, faults)
		defer between.close()
		a := plane(t, bulk.Config{SilentAfter: silence, Runtime: later})
		b := plane(t, bulk.Config{
			Advertise: between.listener.Addr().String(), Window: 400_000, SilentAfter: silence, Runtime: later,
		})
		between.start(b.ListensOn())
		defer a.Close()
		defer b.Close()

		var running sync.WaitGroup
		for i, size := range sizes {
			running.Go(func() {
				want := content(uint64(i), chunks, size)
				if err := sendTwoParts(t.Context(), a, b, want, size, seals, places); err != nil {
					t.Errorf("transfer %d: %v; %+v", i, err, a.Stats())
				}
			})
		}
		done := make(chan struct{})
		go func() { defer close(done); running.Wait() }()
		before, still := "", 0
		testkit.Until(t, "the end of all transfers", func() bool {
			now := fmt.Sprint(a.Stats(), b.Stats())
			if still++; now != before {
				before, still = now, 0
			}
			if still == stuckPolls {
				still = 0
				later.Advance(silence / 4)
			}
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
		if left := b.Stats().Transfers; left != 0 {
			t.Errorf("%d transfers remain", left)
		}
	})
}

// sendTwoParts sends a transfer in two concurrent parts, drops it and compares the result.
func sendTwoParts(ctx context.Context, a, b *bulk.Plane, want [][]byte, size int, seals, places bool) error {
	got := newSink()
	expect := b.Expect
	if seals {
		size += bulk.SealBytes
		for i := range want {
			want[i] = seal(want[i], uint32(i))
		}
		expect = func(size int, chunks uint32, put func(uint32, []byte) error) (*messages.BulkTicket, error) {
			return b.ExpectSealed(size, chunks, sumOf, put)
		}
	}
	ticket, err := expect(size, uint32(len(want)), got.put)
	if err != nil {
		return err
	}
	errs := make(chan error, 2)
	half := len(want) / 2
	for _, part := range [][]uint32{all(len(want))[:half], all(len(want))[half:]} {
		if places {
			go func() { errs <- a.SendInPlace(ctx, ticket, part, inMemory(want)) }()
		} else {
			go func() { errs <- a.Send(ctx, ticket, part, from(want)) }()
		}
	}
	for range 2 {
		if failed := <-errs; failed != nil {
			err = failed
		}
	}
	b.Drop(ticket)
	if err != nil {
		return err
	}
	return got.compare(want)
}

func plane(t *rapid.T, cfg bulk.Config) *bulk.Plane {
	p, err := bulk.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
