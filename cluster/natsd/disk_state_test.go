package natsd

import (
	"strings"
	"testing"
	"time"
)

// TestDiskStates checks the transitions of Disk.next for a need of 100 bytes.
func TestDiskStates(t *testing.T) {
	for _, c := range []struct {
		was     DiskState
		free    int64
		failing string
		want    DiskState
		restart bool
	}{
		{DiskOK, 100, "", DiskOK, false},
		{DiskOK, 99, "", DiskLow, false},
		{DiskOK, 0, "write error", DiskStopped, false},
		{DiskOK, 99, "write error", DiskStopped, false},
		{DiskOK, 100, "write error", DiskStopped, true}, // the disk was full between two checks, or it fails
		{DiskLow, 124, "", DiskLow, false},
		{DiskLow, 125, "", DiskOK, false},
		{DiskLow, 99, "write error", DiskStopped, false},
		{DiskStopped, 99, "write error", DiskStopped, false},
		{DiskStopped, 100, "write error", DiskStopped, true},
		{DiskStopped, 110, "", DiskLow, false},
		{DiskStopped, 125, "", DiskOK, false},
		{0, 100, "", DiskOK, false}, // the first check
		{0, 99, "", DiskLow, false},
	} {
		now, restart := Disk{State: c.was}.next("/data", c.free, 100, c.failing)
		if now.State != c.want || restart != c.restart {
			t.Errorf("state %d, %d free, %q: state %d, restart %t; want %d, %t",
				c.was, c.free, c.failing, now.State, restart, c.want, c.restart)
		}
		if now.Folder != "/data" || now.Free != c.free || !strings.Contains(now.String(), "/data") {
			t.Errorf("%+v: %s", now, now)
		}
		if missing := strings.Contains(now.String(), " missing"); missing != (now.Free < now.Needed) {
			t.Errorf("%+v: %s", now, now)
		}
	}
}

// TestBackoff checks that the first attempt is immediate and that the intervals grow up to a limit.
func TestBackoff(t *testing.T) {
	var b backoff
	var at []int
	begin := time.Unix(0, 0)
	for s := range 100 {
		if b.due(begin.Add(time.Duration(s) * time.Second)) {
			at = append(at, s)
		}
	}
	want := []int{0, 1, 3, 7, 15, 31, 61, 91}
	if len(at) != len(want) {
		t.Fatalf("at %v, want %v", at, want)
	}
	for i := range at {
		if at[i] != want[i] {
			t.Errorf("at %v, want %v", at, want)
		}
	}
}
