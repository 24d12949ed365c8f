package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownMounts is the environment variable that marks the process of OwnMounts.
const ownMounts = "TROUPE_TEST_OWN_MOUNTS"

// OwnMounts runs the test again in its own process with its own mount namespace, and reports
// whether this is that process. If not, the test must return at once. It skips the test if
// namespaces are not allowed.
func OwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownMounts) == t.Name() {
		return true
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.count=1"}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+time.Until(end).String())
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), ownMounts+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Skipf("NOT TESTED: no mount namespace here (%v); run as root, or allow user namespaces", err)
	}
	t.Logf("in a mount namespace:\n%s", out)
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// SmallDisk returns a folder on its own file system of the given size. The test must run in a process
// of OwnMounts.
func SmallDisk(t *testing.T, bytes int64) string {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skipf("NOT TESTED: mounts are not allowed here: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.FormatInt(bytes, 10)); err != nil {
		t.Skipf("NOT TESTED: mounts are not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// mostFilled is the largest file system, in bytes, that FillDisk fills. It protects the disks of
// the machine.
const mostFilled = 256 << 20

// FillDisk fills the file system of a folder from another process, and returns a function that
// frees the space.
func FillDisk(t *testing.T, dir string) (empty func()) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || int64(fs.Blocks)*fs.Bsize > mostFilled {
		t.Fatalf("%s is not the folder of SmallDisk: %d blocks of %d bytes, %v", dir, fs.Blocks, fs.Bsize, err)
	}
	file := filepath.Join(dir, "filler")
	cmd := exec.CommandContext(t.Context(), "dd", "if=/dev/zero", "of="+file, "bs=64k", "oflag=append", "conv=notrunc")
	out, err := cmd.CombinedOutput()
	if _, full := err.(*exec.ExitError); !full {
		t.Fatalf("dd has not filled %s: %v\n%s", dir, err, out)
	}
	return func() {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}
