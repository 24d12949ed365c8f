package cudatest

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// batches: a batch equals its copies made one by one in order, however many there are.
func batches(t *testing.T, d cuda.Device) {
	const pieces, size = 150, 256
	s := stream(t, d)
	batch := capability[cuda.BatchCopier](t, s)
	a, b := must[cuda.Ptr](t)(d.Alloc(pieces*size)), must[cuda.Ptr](t)(d.Alloc(pieces*size))
	in, out := hostMemory(t, d, pieces*size), hostMemory(t, d, pieces*size)
	pattern(in, 3)
	var copies []cuda.Transfer
	for i := range int64(pieces) {
		mirror := (pieces - 1 - i) * size
		copies = append(copies, cuda.Transfer{Dst: a.Offset(i * size), Host: in[i*size : (i+1)*size]},
			cuda.Transfer{Dst: b.Offset(mirror), Src: a.Offset(i * size), Bytes: size},
			cuda.Transfer{Src: b.Offset(mirror), Host: out[mirror : mirror+size]}, cuda.Transfer{})
	}
	noError(t, batch.CopyBatch(copies), batch.CopyBatch(nil), s.Sync())
	for i := range pieces {
		if !bytes.Equal(out[i*size:(i+1)*size], in[(pieces-1-i)*size:(pieces-i)*size]) {
			t.Fatalf("piece %d is at the wrong place", i)
		}
	}
	isFault(t, "a bad copy in a batch", s, func(s cuda.Stream) error {
		return s.(cuda.BatchCopier).CopyBatch(
			[]cuda.Transfer{
				{Dst: a, Host: in[:8]},
				{Dst: b.Offset(pieces * size), Host: in[:8]},
				{Dst: a, Host: in[:8]},
			},
		)
	})
}

// anyLength: copies between device and host work at any offset and length.
func anyLength(t *testing.T, d cuda.Device) {
	const size = 4 << 20
	s, at := stream(t, d), must[cuda.Ptr](t)(d.Alloc(size))
	in, blank, out := hostMemory(t, d, size), hostMemory(t, d, size), hostMemory(t, d, size)
	pattern(in, 3)
	for _, n := range []int{1, 63, 4097, 1<<20 + 1, 3 << 20} {
		for _, from := range []int{0, 1, 4000} {
			want := make([]byte, size)
			copy(want[5:], in[from:from+n])
			noError(t, s.CopyIn(at, blank), s.CopyIn(at.Offset(5), in[from:from+n]), s.CopyOut(out, at), s.Sync())
			if !bytes.Equal(out, want) {
				t.Errorf("%d bytes at offset %d copied to the device differ", n, from)
			}
			clear(want)
			clear(out)
			copy(want[from:], in[5:5+n])
			noError(t, s.CopyIn(at, in), s.CopyOut(out[from:from+n], at.Offset(5)), s.Sync())
			if !bytes.Equal(out, want) {
				t.Errorf("%d bytes copied to offset %d on the host differ", n, from)
			}
		}
	}
}

// graphs: captured work runs at each launch and not before, on the contents that memory has then.
func graphs(t *testing.T, d cuda.Device) {
	const size = 4096
	s := stream(t, d)
	c := capability[cuda.Capturer](t, s)
	a, b := must[cuda.Ptr](t)(d.Alloc(size)), must[cuda.Ptr](t)(d.Alloc(size))
	in, out := hostMemory(t, d, size), hostMemory(t, d, size)
	g, err := c.Capture(func() error {
		if s.Sync() == nil {
			t.Error("Sync in a capture")
		}
		if _, err := s.Record(); err == nil {
			t.Error("Record in a capture")
		}
		return errors.Join(
			s.CopyIn(a, in),
			s.Copy(b, a.Offset(size/2), size/2),
			s.Copy(b.Offset(size/2), a, size/2),
			s.CopyOut(out, b),
		)
	})
	skipWithout(t, err)
	noError(t, err, s.Sync())
	if !bytes.Equal(out, make([]byte, size)) {
		t.Error("work was done during the capture")
	}
	other := stream(t, d)
	for round, on := range []cuda.Stream{s, other, s} {
		pattern(in, round)
		noError(t, g.Launch(on), on.Sync())
		if !bytes.Equal(out, slices.Concat(in[size/2:], in[:size/2])) {
			t.Fatalf("round %d has another result", round)
		}
	}
	noError(t, g.Close())
	if g.Launch(s) == nil || g.Close() == nil {
		t.Error("a closed graph can be launched")
	}
	refused := errors.New("refused")
	if _, err := c.Capture(func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a failed capture: %v", err)
	}
	clear(out)
	noError(t, s.CopyOut(out, a), s.Sync())
	if !bytes.Equal(out, in) {
		t.Error("the stream is unusable after a failed capture")
	}
}

// kernelGraphs: a kernel in a graph has its captured arguments and uses the memory of the launch.
func kernelGraphs(t *testing.T, d cuda.Device) {
	b := newBench(t, d)
	c := capability[cuda.Capturer](t, b.s)
	sum, one := put(b, []float32{0, 0}), put(b, []float32{1, 1})
	op := kernels.MatMul{Out: sum, In: one, Weight: one, M: 1, N: 2, K: 1, Accumulate: true}
	g, err := c.Capture(func() error {
		defer func() { op.Out = 0 }()
		return errors.Join(b.s.Launch(op), b.s.Launch(op))
	})
	skipWithout(t, err)
	noError(t, err)
	for range 3 {
		noError(t, g.Launch(b.s))
	}
	if got := b.get(sum, 2); got[0] != 6 || got[1] != 6 {
		t.Errorf("three launches of two additions give %v", got)
	}
	noError(t, g.Close())
}

// partitions: shares are disjoint and at least as large as requested, and their streams work.
func partitions(t *testing.T, d cuda.Device) {
	p := capability[cuda.Partitioner](t, d)
	total := capability[cuda.Describer](t, d).Properties().Multiprocessors
	if total < 4 {
		t.Skipf("too few multiprocessors to partition: %d", total)
	}
	parts, err := p.Partition(total/4, total/2)
	skipWithout(t, err)
	noError(t, err)
	if a, b := parts[0].Multiprocessors(), parts[1].Multiprocessors(); a < total/4 || b < total/2 || a+b > total {
		t.Errorf("%d and %d of %d multiprocessors", a, b, total)
	}
	at, host := must[cuda.Ptr](t)(d.Alloc(512)), hostMemory(t, d, 512)
	pattern(host, 9)
	first, second := must[cuda.Stream](
		t,
	)(
		parts[0].NewStream("first"),
	), must[cuda.Stream](
		t,
	)(
		parts[1].NewStream("second"),
	)
	noError(t, first.CopyIn(at, host))
	done := must[cuda.Event](t)(first.Record())
	back := hostMemory(t, d, 512)
	noError(t, second.Wait(done), second.CopyOut(back, at), second.Sync())
	if !bytes.Equal(host, back) {
		t.Error("partitions use different memory")
	}
	noError(t, parts[0].Close(), second.Sync(), parts[1].Close())
	if first.Sync() == nil {
		t.Error("a stream works after its partition was closed")
	}
	for _, shares := range [][]int{{total + 1}, {total, 1}, {0}, {-1}} {
		if _, err := p.Partition(shares...); err == nil {
			t.Errorf("partitions of %v of %d multiprocessors", shares, total)
		}
	}
}

func properties(t *testing.T, d cuda.Device) {
	p := capability[cuda.Describer](t, d).Properties()
	if p.Driver == "" || p.Multiprocessors <= 0 {
		t.Errorf("%+v", p)
	}
}

// Peers tests two devices that can access each other's memory.
func Peers(t *testing.T, a, b cuda.Device) {
	peers := capability[cuda.Peers](t, a)
	if !peers.Reaches(b) {
		t.Skip("the devices do not reach each other")
	}
	noError(t, peers.EnablePeer(b), peers.EnablePeer(b))
	const size = 1 << 20
	here, there := must[cuda.Ptr](t)(a.Alloc(size)), must[cuda.Ptr](t)(b.Alloc(size))
	in, out := hostMemory(t, b, size), hostMemory(t, a, size)
	pattern(in, 5)
	source, target := stream(t, b), stream(t, a)
	c := capability[cuda.PeerCopier](t, target)
	noError(
		t,
		source.CopyIn(there, in),
		source.Sync(),
		c.CopyPeer(here, b, there, size),
		target.CopyOut(out, here),
		target.Sync(),
	)
	if !bytes.Equal(in, out) {
		t.Error("the copy differs")
	}
	for what, give := range map[string]func(cuda.PeerCopier) error{
		"past the end there": func(s cuda.PeerCopier) error { return s.CopyPeer(here, b, there.Offset(size/2), size) },
		"past the end here":  func(s cuda.PeerCopier) error { return s.CopyPeer(here.Offset(size/2), b, there, size) },
		"the wrong way":      func(s cuda.PeerCopier) error { return s.CopyPeer(there, b, there, size) },
	} {
		isFault(t, what, stream(t, a), func(s cuda.Stream) error { return give(s.(cuda.PeerCopier)) })
	}
}
