package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestQuarantine quarantines and releases devices that have memory errors, fail their self-tests, or are
// lost.
func TestQuarantine(t *testing.T) {
	scenario(t, dst.Options{
		Count: 8, DeviceBytes: 40 << 20, MaxSequences: 24,
		Kinds: []dst.FaultKind{
			dst.CorruptDevice, dst.QuarantineDevice, dst.ReleaseDevice, dst.FailTests,
			dst.LoseDevice,
		},
	}, 10, 25)
}
