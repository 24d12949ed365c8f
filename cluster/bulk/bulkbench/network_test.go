package bulkbench_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"troupe/cluster/bulk/bulkbench"
	"troupe/core/cost"
)

// counting is a proxy that counts the bytes that go to the receiver.
func counting(t *testing.T, to string) (address string, count *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	count = new(atomic.Int64)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				return
			}
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
			go func() { _, _ = io.Copy(io.MultiWriter(out, counter{count}), in); _ = out.Close() }()
		}
	}()
	return l.Addr().String(), count
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// TestNetwork checks that each size is sent at least three times, and that all of its bytes go over the network each
// time, also with a ticket that was used before.
func TestNetwork(t *testing.T) {
	r, err := bulkbench.Receive("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ticket, err := bulkbench.ParseTicket(r.Ticket())
	if err != nil {
		t.Fatal(err)
	}
	var count *atomic.Int64
	ticket.Address, count = counting(t, ticket.GetAddress())
	for range 2 {
		before, shares := count.Load(), 0
		all, err := bulkbench.Network(t.Context(), ticket, 1, func(float64) { shares++ })
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int64
		total := int64(0)
		for _, one := range all {
			if sizes = append(sizes, one.Bytes); one.Took <= 0 {
				t.Errorf("%d bytes took %v", one.Bytes, one.Took)
			}
			total += 3 * one.Bytes
		}
		if len(sizes) != 6 || sizes[0] != 64<<10 || sizes[5] != 64<<20 || shares != 3*6 {
			t.Errorf("sizes %v, %d reports", sizes, shares)
		}
		if sent := count.Load() - before; sent < total {
			t.Errorf("%d bytes went over the network, and %d were sent", sent, total)
		}
		if line, residuals, err := cost.FitLinear(all); err != nil || line.BytesPerSecond <= 0 || residuals.Count == 0 {
			t.Errorf("%+v %+v: %v", line, residuals, err)
		}
	}
}

// TestTickets checks that a ticket that was not copied whole is refused, and one with another token by the receiver.
func TestTickets(t *testing.T) {
	for _, text := range []string{"", "host:1", "host:1/ab", "host/ab/cd", "host:1/ab/xy", "host:1/ab/"} {
		if _, err := bulkbench.ParseTicket(text); err == nil || !strings.Contains(err.Error(), "from the receiver") {
			t.Errorf("%q: %v", text, err)
		}
	}
	r, err := bulkbench.Receive("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ticket, err := bulkbench.ParseTicket(r.Ticket())
	if err != nil {
		t.Fatal(err)
	}
	ticket.Token = bytes.Clone(ticket.Token)
	binary.BigEndian.PutUint32(ticket.Token, ^binary.BigEndian.Uint32(ticket.Token))
	if _, err := bulkbench.Network(t.Context(), ticket, 1, nil); err == nil {
		t.Error("bytes were sent with another token")
	}
}
