package reload_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"troupe/internal/reload"
)

var errBad = errors.New("bad")

// TestGetAppliesChanges checks that a change is applied, that an invalid change is reported once,
// and that a file may be missing for a moment.
func TestGetAppliesChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (string, error) {
		b, err := os.ReadFile(path)
		if string(b) == "bad" {
			err = errBad
		}
		return string(b), err
	}
	var reported []error
	failed := func(err error) { reported = append(reported, err) }
	if _, err := reload.New(read, failed, path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write("bad")
	if _, err := reload.New(read, failed, path); !errors.Is(err, errBad) {
		t.Errorf("bad file: %v", err)
	}
	write("one")
	v, err := reload.New(read, failed, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "one"},
		{func() { write("two") }, "two"},
		{func() { write("bad") }, "two"},
		{func() {}, "two"},
		{func() { _ = os.Remove(path) }, "two"},
		{func() { write("six") }, "six"},
	} {
		step.do()
		if got := v.Get(); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	if len(reported) != 1 || !errors.Is(reported[0], errBad) {
		t.Errorf("reported: %v", reported)
	}
}
