package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/actors/supervise"
	"troupe/cluster/backup"
)

func value(text string, revision uint64) backup.Key {
	return backup.Key{Value: []byte(text), Revision: revision}
}

func deleted(revision uint64) backup.Key { return backup.Key{Revision: revision, Deleted: true} }

// TestLosses checks that later changes and keys unknown to the copy are not losses.
func TestLosses(t *testing.T) {
	known := backup.State{Revision: 20, Keys: map[string]backup.Key{"a": value("x", 10), "gone": deleted(12)}}
	whole := map[string]backup.Key{"a": value("x", 10), "gone": deleted(12)}
	with := func(key string, k backup.Key) map[string]backup.Key {
		return map[string]backup.Key{"a": whole["a"], "gone": whole["gone"], key: k}
	}
	for name, tc := range map[string]struct {
		have map[string]backup.Key
		last uint64
		want string // empty if nothing is lost
	}{
		"the same":                       {whole, 20, ""},
		"changed later":                  {with("a", value("y", 21)), 21, ""},
		"deleted later":                  {with("a", deleted(21)), 21, ""},
		"added later":                    {with("b", value("y", 21)), 21, ""},
		"deployed again later":           {with("gone", value("y", 21)), 21, ""},
		"a purged deletion":              {map[string]backup.Key{"a": value("x", 10)}, 20, ""},
		"an inferred deletion":           {with("gone", value("y", 12)), 20, ""},
		"revisions lost":                 {whole, 19, "revisions 20 to 20"},
		"a key lost":                     {map[string]backup.Key{"gone": deleted(12)}, 20, "key a"},
		"a key lost and later changes":   {map[string]backup.Key{"gone": deleted(12)}, 25, "key a"},
		"a key at an older revision":     {with("a", value("w", 9)), 20, "revision 10 of key a"},
		"a flipped bit in a value":       {with("a", value("z", 10)), 20, "the value of key a"},
		"a value that became a deletion": {with("a", deleted(10)), 20, "the value of key a"},
		"a deletion lost":                {with("gone", value("y", 11)), 20, "the deletion of key gone"},
	} {
		got := strings.Join(known.Losses(tc.have, tc.last), ", ")
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestMerge(t *testing.T) {
	keys := map[string]backup.Key{"old": value("x", 10), "lost": value("x", 11), "back": deleted(12)}
	s := backup.State{Revision: 20, Keys: keys}
	s.Merge(map[string]backup.Key{"old": value("y", 21), "back": value("x", 5), "new": value("n", 22)}, 22)
	if s.Revision != 22 || string(keys["old"].Value) != "y" || keys["lost"].Revision != 11 || !keys["back"].Deleted ||
		string(keys["new"].Value) != "n" {
		t.Errorf("%+v", s)
	}
}

// TestRecordTerm checks that the limit stays well above every term and is raised rarely.
func TestRecordTerm(t *testing.T) {
	var s backup.State
	raised := 0
	for term := uint64(1 << 50); term < 1<<50+4*backup.TermGap; term += backup.TermGap / 16 {
		if s.RecordTerm(term) {
			raised++
		}
		if s.Term != term || s.TermLimit < term+backup.TermGap/2 {
			t.Fatalf("limit %d of term %d", s.TermLimit, term)
		}
	}
	if raised > 9 {
		t.Errorf("raised %d times", raised)
	}
}

// TestLoadNeedsOneReadableFile checks that either file suffices, that there is no state without
// both, and that damaged files do not count as missing.
func TestLoadNeedsOneReadableFile(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(first, second string) error
		whole  bool
		fails  bool
	}{
		"both":         {func(string, string) error { return nil }, true, false},
		"first lost":   {func(f, _ string) error { return os.Remove(f) }, true, false},
		"first cut":    {func(f, _ string) error { return os.Truncate(f, 100) }, true, false},
		"second empty": {func(_, s string) error { return os.Truncate(s, 0) }, true, false},
		"both lost":    {func(f, s string) error { return errors.Join(os.Remove(f), os.Remove(s)) }, false, false},
		"both cut": {func(f, s string) error {
			return errors.Join(os.Truncate(f, 99), os.Truncate(s, 0))
		}, false, true},
		"one lost, one cut": {func(f, s string) error {
			return errors.Join(os.Truncate(f, 99), os.Remove(s))
		}, false, true},
	} {
		dir := t.TempDir()
		s := &backup.State{Created: time.Unix(5, 0).UTC(), Revision: 7, Keys: map[string]backup.Key{"a": value("x", 7)}}
		if err := backup.Save(supervise.System, dir, s); err != nil {
			t.Fatal(err)
		}
		first, second := filepath.Join(dir, "desired-state.1"), filepath.Join(dir, "desired-state.2")
		if info, err := os.Stat(first); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if err := tc.change(first, second); err != nil {
			t.Fatal(err)
		}
		got, _, err := backup.Load(dir)
		if (err != nil) != tc.fails {
			t.Errorf("%s: %v", name, err)
		}
		if tc.fails && (!errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), first)) {
			t.Errorf("%s: %v", name, err)
		}
		whole := got != nil && string(got.Keys["a"].Value) == "x" && got.Created.Equal(s.Created)
		if whole != tc.whole {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestLoadReturnsNewestFile checks that Load ignores the older file that a crash between two writes
// leaves.
func TestLoadReturnsNewestFile(t *testing.T) {
	dir := t.TempDir()
	s := &backup.State{Revision: 1}
	if err := backup.Save(supervise.System, dir, s); err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(dir, "desired-state.2")
	old, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	s.Revision = 2
	if err := errors.Join(backup.Save(supervise.System, dir, s), os.WriteFile(second, old, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, _, err := backup.Load(dir); err != nil || got.Revision != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFailedSaveChangesNothing checks that a save that cannot write both files leaves the earlier state,
// and no temporary files.
func TestFailedSaveChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := &backup.State{Revision: 1}
	if err := backup.Save(supervise.System, dir, s); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(dir, "desired-state.1")
	if err := errors.Join(os.Remove(first), os.Mkdir(first, 0o700)); err != nil { // it cannot be replaced
		t.Fatal(err)
	}
	s.Revision = 2
	if err := backup.Save(supervise.System, dir, s); err == nil {
		t.Fatal("saved over a folder")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
	if got, _, err := backup.Load(dir); err != nil || got.Revision != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSaverCoalescesRequests checks that requests during a save share the next one, which includes
// their changes.
func TestSaverCoalescesRequests(t *testing.T) {
	saves, begun, gate := 0, make(chan struct{}, 10), make(chan struct{})
	s := backup.NewSaver(supervise.System, func() error { saves++; begun <- struct{}{}; <-gate; return nil })
	s.Request()
	<-begun
	for range 100 {
		s.Request()
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := s.Save(t.Context()); err != nil {
			t.Error(err)
		}
	})
	gate <- struct{}{}
	<-begun
	close(gate)
	waiting.Wait()
	s.Close()
	if saves > 3 {
		t.Errorf("%d saves", saves)
	}
	if err := s.Save(t.Context()); !errors.Is(err, backup.ErrClosed) {
		t.Errorf("%v", err)
	}
}
