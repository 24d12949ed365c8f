package troupe

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNoRapidFailuresAreTracked checks that failure files of rapid are not committed. A file that
// is older than its test may fail without a fault, or hide one.
func TestNoRapidFailuresAreTracked(t *testing.T) {
	if _, err := os.Stat(".git"); err != nil {
		t.Skip("not a git checkout: ", err)
	}
	out, err := exec.Command("git", "ls-files", "--", "*.fail", "*testdata/rapid/*").CombinedOutput()
	if err != nil {
		t.Fatalf("git ls-files: %v: %s", err, out)
	}
	for file := range strings.Lines(string(out)) {
		t.Errorf("%s is tracked; remove it with git rm", strings.TrimSpace(file))
	}
	for _, file := range []string{"testdata/rapid/TestA/TestA-1.fail", "core/kv/testdata/rapid/TestA/TestA-1.fail"} {
		if out, err := exec.Command("git", "check-ignore", "--no-index", file).CombinedOutput(); err != nil {
			t.Errorf("%s is not ignored: %v %s", file, err, out)
		}
	}
}

// TestNoProgramsAreTracked checks that no compiled programs are committed, such as test binaries.
func TestNoProgramsAreTracked(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("not a git checkout: ", err)
	}
	formats := map[string]string{"\x7fELF": "ELF", "\xcf\xfa\xed\xfe": "Mach-O", "MZ\x90\x00": "Windows"}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		file, err := os.Open(name)
		if err != nil {
			continue // deleted, and not committed yet
		}
		head := make([]byte, 4)
		_, err = io.ReadFull(file, head)
		file.Close()
		if format := formats[string(head)]; err == nil && format != "" {
			t.Errorf("%s is a program (%s); remove it with git rm", name, format)
		}
	}
}
