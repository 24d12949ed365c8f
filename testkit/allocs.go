package testkit

import (
	"runtime/metrics"
	"testing"
)

// Allocates runs f, and fails where it allocates more bytes than most, garbage included. Nothing else may run meanwhile.
func Allocates(t testing.TB, most uint64, f func()) {
	t.Helper()
	before := allocated()
	f()
	if n := allocated() - before; n > most {
		t.Fatalf("%d bytes were allocated; at most %d were expected", n, most)
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
