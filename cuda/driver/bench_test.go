//go:build linux

package driver

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"troupe/cuda"
	"troupe/testkit/fakecuda"
)

// BenchmarkCross measures the cost of a command in lists of several lengths, compared to SyscallN.
// The called function does nothing.
func BenchmarkCross(b *testing.B) {
	nothing := function(b, "fakecuda_nothing")
	b.Run("SyscallN", func(b *testing.B) {
		for b.Loop() {
			purego.SyscallN(nothing, 1, 2, 3, 4)
		}
	})
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("list=%d", n), func(b *testing.B) {
			commands := slices.Repeat([]command{{fn: nothing}}, n)
			l := list{commands: &commands[0], n: n}
			for b.Loop() {
				l.done = 0
				l.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/command")
		})
	}
}

// BenchmarkCopy compares the bandwidth of copies to the device through a stream with that of direct
// library calls, on the fake. It measures the cost of this layer, not a GPU. Both do the same
// rounds alternately; the ratio is of their medians.
func BenchmarkCopy(b *testing.B) {
	const copies = 16 // per round
	l, err := Load(fakecuda.Path(b))
	if err != nil {
		b.Fatal(err)
	}
	opened, err := l.Open(0, Embedded{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	d, sync := opened.(*device), function(b, "cuStreamSynchronize")
	for _, size := range []int64{64 << 10, 1280 << 10, 8 << 20} {
		b.Run(fmt.Sprintf("KiB=%d", size>>10), func(b *testing.B) {
			made, err := d.NewStream("bench")
			if err != nil {
				b.Fatal(err)
			}
			s := made.(*stream)
			at, _ := d.Alloc(size)
			host, err := d.AllocHost(size)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _, _, _ = s.Close(), host.Free(), d.Free(at) }()
			clear(host.Bytes()) // touches it
			through := func() {
				for range copies {
					_ = s.CopyIn(at, host.Bytes())
				}
				if err := s.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			bare := func() { bareCopies(d, s, sync, at, host.Bytes(), copies) }
			through()
			bare()
			var times [2][]time.Duration
			for b.Loop() {
				for i, round := range []func(){through, bare} {
					start := time.Now()
					round()
					times[i] = append(times[i], time.Since(start))
				}
			}
			ratio := float64(median(times[1])) / float64(median(times[0]))
			b.ReportMetric(ratio, "x-of-bare")
			b.ReportMetric(copies*float64(size)/float64(median(times[0]).Nanoseconds()), "fake-GB/s")
		})
	}
}

// bareCopies makes the copies by direct library calls with SyscallN.
func bareCopies(d *device, s *stream, sync uintptr, at cuda.Ptr, host []byte, n int) {
	purego.SyscallN(d.lib.SetContext.at, d.context)
	for range n {
		purego.SyscallN(d.lib.CopyIn.at, uintptr(at), uintptr(unsafe.Pointer(&host[0])), uintptr(len(host)), s.handle)
	}
	purego.SyscallN(sync, s.handle)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
