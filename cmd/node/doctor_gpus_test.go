package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDeviceFileWithoutPermission checks the finding for a device file that the user may not open.
// It needs the right to create device files, and acts as user 65534.
func TestDeviceFileWithoutPermission(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil { // so that user 65534 can list it
		t.Fatal(err)
	}
	pattern := filepath.Join(folder, "nvidia*")
	if got := checkDeviceFiles(pattern); got != nil {
		t.Errorf("no device files: %v", got)
	}
	device := filepath.Join(folder, "nvidia0")
	if err := unix.Mknod(device, unix.S_IFCHR, int(unix.Mkdev(1, 3))); err != nil {
		t.Skip("NOT TESTED: device files without permission: creating one failed: ", err)
	}
	found := make(chan []finding)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
		}
		found <- checkDeviceFiles(pattern)
	}()
	got := <-found
	if len(got) != 1 || got[0].Check != "permissions" || got[0].State != stateFix ||
		got[0].Text != "no permission to use "+device ||
		!strings.Contains(got[0].Remedy, "group that owns it") {
		t.Errorf("%+v", got)
	}
}
