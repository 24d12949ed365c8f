package main

import (
	"strings"
	"testing"

	"troupe/cluster/natsd"
)

// TestDataSpaceFinding checks the findings about free space, with and without a running node.
func TestDataSpaceFinding(t *testing.T) {
	for _, c := range []struct {
		free  int64
		held  bool
		state state
		want  string
	}{
		{0, false, stateFix, "/d has 0 B free; the store needs 32 MiB: 32 MiB missing"},
		{natsd.DefaultMinFree - 1, true, stateFix, "1 B missing"},
		{natsd.DefaultMinFree, true, stateWarning, "/d has 32 MiB free"},
		{lowDiskBytes, true, stateOK, "/d is in use by a running node and has 1 GiB free"},
		{lowDiskBytes, false, stateOK, "/d is writable and has 1 GiB free"},
	} {
		f := dataSpaceFinding("/d", c.free, natsd.DefaultMinFree, c.held)
		if f.State != c.state || !strings.Contains(f.Text, c.want) || (f.Remedy != "") != (c.state != stateOK) {
			t.Errorf("%d bytes, held %t: %+v", c.free, c.held, f)
		}
	}
}
