package dst_test

import (
	"testing"

	"troupe/testkit/dst"
)

// TestAllKinds mixes the faults of all scenarios, to test combinations that no other scenario has.
func TestAllKinds(t *testing.T) {
	scenario(t, dst.Options{Count: 30, Kinds: dst.AllKinds()}, 2)
}
