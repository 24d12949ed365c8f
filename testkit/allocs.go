package testkit

import (
	"runtime/metrics"
	"testing"
)

// Allocates runs f and fails the test if f allocates more than limit bytes, garbage included.
// Nothing else may run concurrently.
func Allocates(t testing.TB, limit uint64, f func()) {
	t.Helper()
	before := allocated()
	f()
	if n := allocated() - before; n > limit {
		t.Fatalf("allocated %d bytes, want at most %d", n, limit)
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
