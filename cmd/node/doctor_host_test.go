package main

import (
	"strings"
	"testing"

	"troupe/cluster/natsd"
)

// TestDataSpace: what a data folder lacks is said also while a node uses it.
func TestDataSpace(t *testing.T) {
	for _, c := range []struct {
		free  int64
		held  bool
		state state
		want  string
	}{
		{0, false, bad, "/d has 0 B left, and the store needs 32 MiB: 32 MiB missing"},
		{natsd.DefaultMinFree - 1, true, bad, "1 B missing"},
		{natsd.DefaultMinFree, true, odd, "/d has 32 MiB left"},
		{enoughDisk, true, fine, "/d belongs to a node that is running, and has 1 GiB left"},
		{enoughDisk, false, fine, "/d can be written to, and has 1 GiB left"},
	} {
		f := dataSpace("/d", c.free, natsd.DefaultMinFree, c.held)
		if f.State != c.state || !strings.Contains(f.Text, c.want) || (f.Remedy != "") != (c.state != fine) {
			t.Errorf("%d bytes, held %t: %+v", c.free, c.held, f)
		}
	}
}
