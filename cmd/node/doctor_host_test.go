package main

import (
	"strings"
	"testing"

	"troupe/cluster/natsd"
)

// TestDataSpaceFinding: what a data folder lacks is said also while a node uses it.
func TestDataSpaceFinding(t *testing.T) {
	for _, c := range []struct {
		free  int64
		held  bool
		state state
		want  string
	}{
		{0, false, stateFix, "/d has 0 B left, and the store needs 32 MiB: 32 MiB missing"},
		{natsd.DefaultMinFree - 1, true, stateFix, "1 B missing"},
		{natsd.DefaultMinFree, true, stateWarning, "/d has 32 MiB left"},
		{lowDiskBytes, true, stateOK, "/d belongs to a node that is running, and has 1 GiB left"},
		{lowDiskBytes, false, stateOK, "/d can be written to, and has 1 GiB left"},
	} {
		f := dataSpaceFinding("/d", c.free, natsd.DefaultMinFree, c.held)
		if f.State != c.state || !strings.Contains(f.Text, c.want) || (f.Remedy != "") != (c.state != stateOK) {
			t.Errorf("%d bytes, held %t: %+v", c.free, c.held, f)
		}
	}
}
