package host_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zeebo/xxh3"

	"troupe/cuda/host"
	"troupe/cuda/kernels"
)

// BenchmarkMatMul launches 50 products and one Sync, like a step.
func BenchmarkMatMul(b *testing.B) {
	const n, k, launches = 1024, 192, 50
	for _, workers := range []int{1, 2} {
		for _, m := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("workers=%d/M=%d", workers, m), func(b *testing.B) {
				d := open(b, host.Config{Workers: workers})
				s := newStream(b, d)
				op := kernels.MatMul{
					Out:    alloc(b, d, m*n),
					In:     alloc(b, d, m*k),
					Weight: alloc(b, d, n*k),
					M:      int32(m),
					N:      n,
					K:      k,
				}
				for b.Loop() {
					for range launches {
						if err := s.Launch(op); err != nil {
							b.Fatal(err)
						}
					}
					if err := s.Sync(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(launches*float64(b.N)*2*float64(m)*n*k/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkLaunch measures the caller's cost of a step's launches while the device is busy.
func BenchmarkLaunch(b *testing.B) {
	const launches = 100
	g := newGate()
	d := open(b, host.Config{Inject: g.inject})
	s, p := newStream(b, d), alloc(b, d, 8)
	for b.Loop() {
		b.StopTimer()
		if err := s.Copy(p, p, 8); err != nil {
			b.Fatal(err)
		}
		<-g.reached
		b.StartTimer()
		for range launches {
			if err := s.Launch(kernels.SiluMul{Out: p, Gate: p, Up: p, N: 8}); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		g.open <- struct{}{}
		if err := s.Sync(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/launches, "ns/launch")
}

// BenchmarkCopyOut copies blocks to the host and checksums them there, like a tier: the data should
// still be in the cache.
func BenchmarkCopyOut(b *testing.B) {
	const size, blocks = 1536 << 10, 40
	d := open(b, host.Config{})
	s, at := newStream(b, d), alloc(b, d, blocks*size/4)
	memory, err := d.AllocHost(blocks * size)
	if err != nil {
		b.Fatal(err)
	}
	all := memory.Bytes()
	for i := range all {
		all[i] = byte(i)
	}
	if err := errors.Join(s.CopyIn(at, all), s.Sync()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for i := 0; b.Loop(); i++ {
		from := i % blocks * size
		if err := errors.Join(s.CopyOut(all[from:from+size], at.Offset(int64(from))), s.Sync()); err != nil {
			b.Fatal(err)
		}
		xxh3.Hash(all[from : from+size])
	}
}
