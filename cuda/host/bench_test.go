package host_test

import (
	"fmt"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/kernels"
)

// BenchmarkMatMul launches as a step does: 50 products, then one Sync.
func BenchmarkMatMul(b *testing.B) {
	const n, k, launches = 1024, 192, 50
	for _, workers := range []int{1, 2} {
		for _, m := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("workers=%d/M=%d", workers, m), func(b *testing.B) {
				d, s := device(b, workers)
				defer d.Close()
				op := kernels.MatMul{Out: alloc(b, d, m*n), In: alloc(b, d, m*k), Weight: alloc(b, d, n*k), M: int32(m), N: n, K: k}
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

// BenchmarkLaunch is what a launch costs the caller.
func BenchmarkLaunch(b *testing.B) {
	d, s := device(b, 1)
	defer d.Close()
	const n = 64
	p := alloc(b, d, n)
	op := kernels.SiluMul{Out: p, Gate: p, Up: p, N: n}
	for i := 0; b.Loop(); i++ {
		if err := s.Launch(op); err != nil {
			b.Fatal(err)
		}
		if i%100 == 99 {
			if err := s.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func device(b *testing.B, workers int) (cuda.Device, cuda.Stream) {
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20, Workers: workers})
	if err != nil {
		b.Fatal(err)
	}
	s, err := d.NewStream("bench")
	if err != nil {
		b.Fatal(err)
	}
	return d, s
}

func alloc(b *testing.B, d cuda.Device, floats int) cuda.Ptr {
	p, err := d.Alloc(int64(4 * floats))
	if err != nil {
		b.Fatal(err)
	}
	return p
}
