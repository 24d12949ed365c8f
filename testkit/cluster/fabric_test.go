package cluster_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

// fabric returns a network of hosts a and b.
func fabric(t *testing.T) *cluster.Fabric {
	t.Helper()
	cluster.RequireFabric(t)
	f, err := cluster.NewFabric(1, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// stream opens a TCP connection from a to b. received counts the bytes that b has received.
func stream(t *testing.T, f *cluster.Fabric) (from net.Conn, received *atomic.Int64) {
	t.Helper()
	var l net.Listener
	if err := f.Host("b").Do(func() (err error) {
		l, err = net.Listen("tcp", "10.99.0.2:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	received = &atomic.Int64{}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for buf := make([]byte, 1); ; {
			if _, err := io.ReadFull(conn, buf); err != nil {
				return
			}
			received.Add(1)
		}
	}()
	from, err := f.Host("a").Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	return from, received
}

// until waits until a condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if err := cluster.Until(cluster.TestContext(t, time.Minute), func() error {
		if !condition() {
			return context.DeadlineExceeded
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// TestPartitionedStreamResumes checks that a cut connection is silent but not broken, and resumes
// after the network heals.
func TestPartitionedStreamResumes(t *testing.T) {
	for name, cut := range map[string]func(*cluster.Fabric, cluster.Link){
		"both ways":     func(f *cluster.Fabric, l cluster.Link) { f.SetBoth("a", "b", l) },
		"all of a host": func(f *cluster.Fabric, l cluster.Link) { f.SetAll("a", l) },
		"one way":       func(f *cluster.Fabric, l cluster.Link) { f.Set("a", "b", l) },
	} {
		t.Run(name, func(t *testing.T) {
			f := fabric(t)
			conn, received := stream(t, f)
			send(t, conn, "x")
			until(t, "before the cut", func() bool { return received.Load() == 1 })
			cut(f, cluster.Link{Cut: true})
			send(t, conn, "y")
			until(t, "a lost packet", func() bool { return f.Dropped("a", "b") > 1 })
			if n := received.Load(); n != 1 {
				t.Errorf("b received %d bytes through the cut", n-1)
			}
			f.Heal()
			until(t, "after the cut", func() bool { return received.Load() == 2 })
		})
	}
}

// TestOneWayCut checks that a link that is cut in one direction still works in the other.
func TestOneWayCut(t *testing.T) {
	f := fabric(t)
	a, b := listenUDP(t, f, "a", "10.99.0.1:9"), listenUDP(t, f, "b", "10.99.0.2:9")
	f.Set("a", "b", cluster.Link{Cut: true})
	a.send(t, b)
	until(t, "the lost datagram", func() bool { return f.Dropped("a", "b") == 1 })
	b.send(t, a)
	until(t, "the other direction", func() bool { return a.got.Load() == 1 })
	if b.got.Load() != 0 || f.Dropped("b", "a") != 0 {
		t.Errorf("b received %d datagrams, and %d of its own were dropped", b.got.Load(), f.Dropped("b", "a"))
	}
}

func TestDelayAndLoss(t *testing.T) {
	const delay = 50 * time.Millisecond
	f := fabric(t)
	a, b := listenUDP(t, f, "a", "10.99.0.1:9"), listenUDP(t, f, "b", "10.99.0.2:9")
	f.Set("a", "b", cluster.Link{Delay: delay})
	began := time.Now()
	a.send(t, b)
	until(t, "the late datagram", func() bool { return b.got.Load() == 1 })
	if took := time.Since(began); took < delay {
		t.Errorf("took %s, less than the delay", took)
	}
	f.Set("a", "b", cluster.Link{Loss: 0.5})
	until(t, "some packets dropped and some delivered", func() bool {
		a.send(t, b)
		return b.got.Load() > 5 && f.Dropped("a", "b") > 5
	})
}

// udpSocket is a UDP socket that counts the datagrams it receives.
type udpSocket struct {
	net.PacketConn
	got atomic.Int64
}

func listenUDP(t *testing.T, f *cluster.Fabric, host, address string) *udpSocket {
	t.Helper()
	d := &udpSocket{}
	if err := f.Host(host).Do(func() (err error) {
		d.PacketConn, err = net.ListenPacket("udp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	go func() {
		for buf := make([]byte, 16); ; {
			if _, _, err := d.ReadFrom(buf); err != nil {
				return
			}
			d.got.Add(1)
		}
	}()
	return d
}

func (d *udpSocket) send(t *testing.T, to *udpSocket) {
	t.Helper()
	if _, err := d.WriteTo([]byte("x"), to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
}
