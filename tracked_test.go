package troupe

import (
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
