package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestAllKinds mixes the faults of all scenarios, so that those meet that no other one brings together.
func TestAllKinds(t *testing.T) {
	scenario(t, dst.Options{Count: 30, Kinds: dst.AllKinds()}, 1, 2, 4027)
}
