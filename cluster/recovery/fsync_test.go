package recovery_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"troupe/messages"
)

// childDir is the environment variable that runs TestSyncedChild. Its value is the data folder.
const childDir = "TROUPE_SYNCED_CHILD"

// TestSyncedChild is the process that the tests below trace. It prints each change that was
// acknowledged.
func TestSyncedChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("run by TestSyncedBeforeAcknowledged")
	}
	n, err := boot(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		if _, err := os.Stdout.WriteString(text + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		name := fmt.Sprint("model-", i)
		spec := &messages.DeploymentSpec{Name: name, Replicas: new(uint32(i + 1))}
		if _, err := n.store.Put(t.Context(), spec, 0); err != nil {
			t.Fatal(err)
		}
		say("STORED " + name)
	}
	if err := n.store.Delete(t.Context(), "model-0", false); err != nil {
		t.Fatal(err)
	}
	say("DELETED model-0")
	if err := n.members.Join(t.Context(), "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	acquire(t, n, "warm")
	say("LEASES BEGIN")
	for i := range 20 {
		role := fmt.Sprint("role-", i)
		if err := n.members.Release(t.Context(), role, acquire(t, n, role)); err != nil {
			t.Fatal(err)
		}
	}
	say("LEASES END")
}

// trace runs TestSyncedChild under strace and returns its folder and its system calls.
func trace(t *testing.T) (dir string, calls []string) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("NOT CHECKED: order of system calls; install strace")
	}
	dir = t.TempDir()
	log := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(strace, "-f", "-y", "-s", "1000000", "-o", log,
		"-e", "trace=write,pwrite64,openat,fsync,fdatasync,renameat",
		os.Args[0], "-test.run=^TestSyncedChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("ptrace")) {
			t.Skipf("NOT CHECKED: order of system calls; strace is not permitted: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return dir, strings.Split(string(text), "\n")
}

var (
	callForm    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)
	resumedForm = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
	writeForm   = regexp.MustCompile(`^\d+<([^>]*)>, ("(?:[^"\\]|\\.)*")`)
	fileForm    = regexp.MustCompile(`^\d+<([^>]*)>`)
	renameForm  = regexp.MustCompile(`^AT_FDCWD<[^>]*>, "([^"]*)", AT_FDCWD<[^>]*>, "([^"]*)"`)
)

// diskModel models what a disk is certain to have: synced contents, under names whose folder was
// synced.
type diskModel struct {
	pages, synced map[string]string // contents by file name
	renamed       [][2]string       // renames since their folder was synced
	names         map[string]string
	open          map[string]string // the file of an unfinished fsync, by thread
}

func newDisk() *diskModel {
	return &diskModel{
		pages: map[string]string{}, synced: map[string]string{}, names: map[string]string{}, open: map[string]string{},
	}
}

// apply applies a line of strace and returns what the process wrote to stdout in it.
func (d *diskModel) apply(line string) (text string) {
	if m := resumedForm.FindStringSubmatch(line); m != nil {
		if m[2] == "fsync" {
			d.sync(d.open[m[1]])
		}
		return ""
	}
	m := callForm.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	thread, call, args := m[1], m[2], m[3]
	switch call {
	case "write":
		if w := writeForm.FindStringSubmatch(args); w != nil {
			text, _ := strconv.Unquote(w[2]) // binary data does not belong to the copy
			if strings.HasPrefix(args, "1<") {
				return text
			}
			d.pages[w[1]] += text
		}
	case "renameat":
		if r := renameForm.FindStringSubmatch(args); r != nil {
			d.renamed = append(d.renamed, [2]string{r[1], r[2]})
		}
	case "fsync":
		path := fileForm.FindStringSubmatch(args)[1]
		if d.open[thread] = path; !strings.Contains(args, "<unfinished") {
			d.sync(path)
		}
	}
	return ""
}

func (d *diskModel) sync(path string) {
	d.synced[path] = d.pages[path]
	var left [][2]string
	for _, r := range d.renamed {
		if filepath.Dir(r[1]) != path {
			left = append(left, r)
			continue
		}
		d.names[r[1]] = d.synced[r[0]]
	}
	d.renamed = left
}

// image returns a folder with the files that are certain to be on disk. It has no JetStream files.
func (d *diskModel) image(t *testing.T, dir string) string {
	t.Helper()
	image := t.TempDir()
	for name, content := range d.names {
		if filepath.Dir(name) != dir {
			continue
		}
		if err := os.WriteFile(filepath.Join(image, filepath.Base(name)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

// TestSyncedBeforeAcknowledged checks that every change is synced to disk before it is
// acknowledged, by the order of system calls. A node that starts after a power failure therefore
// has the change.
func TestSyncedBeforeAcknowledged(t *testing.T) {
	dir, calls := trace(t)
	d, want, acknowledged := newDisk(), map[string]uint32{}, 0
	for _, line := range calls {
		text := d.apply(line)
		what, name, _ := strings.Cut(strings.TrimSpace(text), " ")
		switch what {
		case "STORED":
			want[name] = uint32(len(want) + 1)
		case "DELETED":
			delete(want, name)
		default:
			continue
		}
		acknowledged++
		t.Run(fmt.Sprint(what, " ", name), func(t *testing.T) {
			n, err := boot(t, d.image(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			all, err := n.store.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]uint32{}
			for _, spec := range all {
				have[spec.GetName()] = spec.GetReplicas()
			}
			if fmt.Sprint(have) != fmt.Sprint(want) {
				t.Errorf("the disk has %v, acknowledged is %v", have, want)
			}
		})
	}
	if acknowledged != 6 {
		t.Errorf("%d changes were acknowledged, not 6", acknowledged)
	}
}

// TestLeasesDoNotSync checks that acquiring and releasing leases syncs no file, and that no file of
// leases is opened for synchronous writes.
func TestLeasesDoNotSync(t *testing.T) {
	_, calls := trace(t)
	d, within, seen := newDisk(), false, 0
	for _, line := range calls {
		switch strings.TrimSpace(d.apply(line)) {
		case "LEASES BEGIN":
			within = true
		case "LEASES END":
			within = false
		}
		if within {
			seen++
		}
		synced := strings.Contains(line, "fsync(") || strings.Contains(line, "fdatasync(")
		if m := callForm.FindStringSubmatch(line); within && synced && m != nil {
			t.Errorf("a lease waited for fsync: %.200s", line)
		}
		opened := strings.Contains(line, "openat(") && strings.Contains(line, "KV_troupe-members/msgs/")
		if opened && strings.Contains(line, "SYNC") {
			t.Errorf("a file of leases is opened for synchronous writes: %.200s", line)
		}
	}
	if seen < 20 {
		t.Errorf("only %d system calls between LEASES BEGIN and LEASES END", seen)
	}
}
