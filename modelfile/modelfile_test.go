package modelfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"troupe/modelfile"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpensRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		fifo, "/dev/zero", "/dev/tty", dir, "/proc/self/mem", "/proc/kmsg", "/sys/kernel/notes",
		link(t, fifo, filepath.Join(dir, "to a fifo")), link(t, "/dev/zero", filepath.Join(dir, "to zero")),
	} {
		if _, err := os.Stat(path); err != nil {
			continue // missing on this machine
		}
		if _, err := (modelfile.Roots{}).Open(path); !errors.Is(err, modelfile.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := (modelfile.Roots{}).Stat(path); !errors.Is(err, modelfile.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := (modelfile.Roots{}).Open(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestReadLimitsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, strings.Repeat("x", 100))
	if b, err := (modelfile.Roots{}).Read(path, 100); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	_, err := modelfile.Roots{}.Read(path, 99)
	if err == nil || !strings.Contains(err.Error(), "larger than the 99 bytes that config.json may have") {
		t.Error(err)
	}
}

func TestRoots(t *testing.T) {
	base := t.TempDir()
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	inside := write(t, filepath.Join(root, "blobs", "b"), "x")
	secret := write(t, filepath.Join(outside, "secret"), "x")
	write(t, filepath.Join(base, "root2", "file"), "x")
	dir := filepath.Join(root, "snapshots", "r")
	write(t, filepath.Join(dir, "plain"), "x")
	alias := link(t, root, filepath.Join(base, "alias"))
	roots, err := modelfile.NewRoots(alias)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		inside, filepath.Join(dir, "plain"), link(t, "../../blobs/b", filepath.Join(dir, "linked")),
		link(t, inside, filepath.Join(outside, "back")), filepath.Join(alias, "blobs", "b"),
	} {
		if b, err := roots.Read(path, 10); err != nil || string(b) != "x" {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if err := roots.Check(dir); err != nil {
		t.Error(err)
	}
	if _, err := roots.Open(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file below a root: %v", err)
	}
	for _, path := range []string{
		secret, filepath.Join(outside, "nothing"), "/etc/passwd", "/nowhere/at/all",
		filepath.Join(root, "..", "outside", "secret"), filepath.Join(base, "root2", "file"),
		link(t, secret, filepath.Join(dir, "escapes")), link(t, outside+"/nothing", filepath.Join(dir, "dangling")),
		filepath.Join(link(t, outside, filepath.Join(dir, "folder")), "secret"),
		filepath.Join(dir, "folder", "nothing"), "/proc/self/root" + secret,
	} {
		_, open := roots.Open(path)
		_, stat := roots.Stat(path)
		if !errors.Is(open, modelfile.ErrOutside) || !errors.Is(stat, modelfile.ErrOutside) {
			t.Errorf("%s: %v, %v", path, open, stat)
		}
	}
	if err := roots.Check(dir); !errors.Is(err, modelfile.ErrOutside) {
		t.Errorf("folder with links to outside: %v", err)
	}
	for _, path := range []string{outside, filepath.Join(dir, "folder"), "/nowhere"} {
		if err := roots.Check(path); !errors.Is(err, modelfile.ErrOutside) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if all := roots.Files(dir); len(all) != 2 || filepath.Base(all[0]) != "linked" {
		t.Errorf("files: %v", all)
	}
	for _, dir := range []string{inside, filepath.Join(base, "nothing")} {
		if _, err := modelfile.NewRoots(dir); err == nil {
			t.Errorf("NewRoots accepted %s", dir)
		}
	}
}

// TestOpenResistsFileSwap replaces a link to a file by a link outside the roots, again and again,
// while it is opened. The secret is never read.
func TestOpenResistsFileSwap(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "root")
	good := write(t, filepath.Join(root, "good"), "good")
	bad := write(t, filepath.Join(base, "bad"), "secret")
	roots, err := modelfile.NewRoots(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "path")
	link(t, good, path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			next := filepath.Join(root, "next")
			if os.Symlink([]string{good, bad}[i%2], next) != nil || os.Rename(next, path) != nil {
				return
			}
		}
	}()
	for read := 0; ; read++ {
		b, err := roots.Read(path, 10)
		if err == nil && string(b) != "good" || err != nil && !errors.Is(err, modelfile.ErrOutside) {
			t.Fatalf("after %d reads: %q, %v", read, b, err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestJSONErrorsHideText(t *testing.T) {
	var into struct {
		Number int `json:"number"`
		Inner  struct {
			List []int `json:"list"`
		} `json:"inner"`
		Map map[string]int `json:"map"`
	}
	for text, want := range map[string]string{
		`secret`:                           "invalid JSON at byte 1",
		`{"number": "secret"}`:             "field number has a value of the wrong type, at byte 19",
		`{"inner": {"list": ["secret"]}}`:  "field inner.list has",
		`{"map": {"secret": "secret"}}`:    "field map has",
		`{"number": 123456789012345678901`: "invalid JSON",
		`{"number": 12345678901234567890}`: "field number has",
		`"secret`:                          "invalid JSON at byte",
	} {
		err := modelfile.Unmarshal([]byte(text), &into)
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "1234") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
