package host_test

import (
	"errors"
	"runtime"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/kernels"
)

// TestPartitionLimitsWorkers: a partition uses as many goroutines as its share, including the
// caller. Its streams share them, and it closes with its device.
func TestPartitionLimitsWorkers(t *testing.T) {
	d := open(t, host.Config{Workers: 4})
	before := runtime.NumGoroutine()
	parts, err := d.(cuda.Partitioner).Partition(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if helpers := runtime.NumGoroutine() - before; helpers != 1 { // besides the caller
		t.Errorf("%d goroutines help partitions of 1 and of 2", helpers)
	}
	const m, n, k = 16, 512, 512 // large enough to be split
	at, err := d.Alloc(4 * (m*n + m*k + n*k))
	if err != nil {
		t.Fatal(err)
	}
	op := kernels.MatMul{Out: at, In: at.Offset(4 * m * n), Weight: at.Offset(4 * (m*n + m*k)), M: m, N: n, K: k}
	for _, p := range parts {
		var streams []cuda.Stream
		for range 3 {
			s, err := p.NewStream("one of three")
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
			op.Out = at // all compute the same
			if err := s.Launch(op); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range streams {
			if err := s.Sync(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := errors.Join(parts[0].Close(), d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if _, err := parts[1].NewStream("late"); err == nil {
		t.Error("a stream of a device that is closed")
	}
	if _, err := d.(cuda.Partitioner).Partition(1); err == nil {
		t.Error("a partition of a device that is closed")
	}
}
