package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/rs/zerolog"

	"troupe/internal/audit"
)

// entries reads a file with one JSON entry per line.
func entries(t *testing.T, file string) (all []audit.Entry) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

func open(t *testing.T, cfg audit.Config) *audit.Log {
	t.Helper()
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// TestEntryIsFileLineAndEvent checks that an entry becomes a line of the file and an event, and
// that only the owner can access the file.
func TestEntryIsFileLineAndEvent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	l := open(t, audit.Config{Node: "n1", File: file, Log: zerolog.Nop()})
	var events []string
	l.Publish(func(kind, subject, detail string) { events = append(events, kind+" "+subject+" "+detail) })
	l.Record(audit.Entry{Via: "http", Who: "key:ann", Action: "models.scale", Object: "name=kjv", Result: audit.Done})
	l.Flush()
	all := entries(t, file)
	if len(all) != 1 || all[0].Who != "key:ann" || all[0].Node != "n1" || all[0].Time.IsZero() ||
		all[0].Result != audit.Done {
		t.Errorf("%+v", all)
	}
	if len(events) != 1 || !strings.HasPrefix(events[0], `audit.models.scale name=kjv {"time":`) {
		t.Errorf("%q", events)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestRotatedFileIsRecreated checks that a renamed file is created again and that no entry is lost.
func TestRotatedFileIsRecreated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	l := open(t, audit.Config{File: file, Log: zerolog.Nop()})
	put := func(n int) {
		l.Record(audit.Entry{Object: fmt.Sprint(n), Result: audit.Done})
		l.Flush()
	}
	put(1)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	put(2)
	put(3)
	if before, after := entries(t, file+".1"), entries(t, file); len(before) != 1 || len(after) != 2 ||
		after[1].Object != "3" {
		t.Errorf("%+v, %+v", before, after)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	put(4)
	if after := entries(t, file); len(after) != 1 {
		t.Errorf("%+v", after)
	}
}

// TestFlood checks that thousands of refusals are bounded and counted, and that changes are still
// recorded.
func TestFlood(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	l, err := audit.Open(audit.Config{File: file, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	const flood = 10_000
	for range flood {
		l.Record(audit.Entry{Action: "refused", Result: audit.Refused})
	}
	l.Record(audit.Entry{Action: "models.delete", Result: audit.Done})
	l.Close()
	written, omitted, change := 0, uint64(0), 0
	for _, e := range entries(t, file) {
		switch {
		case e.Action == "models.delete":
			change++
		case e.Result == audit.Refused:
			omitted += e.LeftOut
			if e.Action == "refused" {
				written++
			}
		}
	}
	if written > 200 || change != 1 || uint64(written)+omitted != flood || l.Dropped() != omitted ||
		l.Entries(audit.Refused) != flood {
		t.Errorf(
			"%d of %d refusals written, %d omitted (%d counted), %d changes",
			written, flood, omitted, l.Dropped(), change,
		)
	}
}

// FuzzFields checks that an entry with any field content is one line of bounded length without
// control characters.
func FuzzFields(f *testing.F) {
	f.Add("a\n{\"who\":\"root\"}")
	f.Add("\x1b[2J\x00\xff\u2028\u202e")
	f.Add(strings.Repeat("x", 10_000))
	f.Fuzz(func(t *testing.T, text string) {
		log := &bytes.Buffer{}
		l, err := audit.Open(audit.Config{Log: zerolog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		l.Record(audit.Entry{
			Via: text, Who: text, Address: text, Action: text, Subject: text, Object: text, Reason: text,
			Request: text, Result: audit.Done,
		})
		l.Close()
		line := strings.TrimSuffix(log.String(), "\n")
		if len(line) > 8*8*300 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) ||
			!json.Valid([]byte(line)) {
			t.Errorf("%d bytes: %q", len(line), line)
		}
	})
}

// TestRefusedFiles checks that the log refuses files that are not regular or that others can
// change.
func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	loose, link, pipe := filepath.Join(dir, "loose"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(loose, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		loose: "can be changed by others", link: "too many levels of symbolic links", pipe: "no such device",
		dir:                             "is a directory",
		filepath.Join(dir, "none", "x"): "no such file",
	} {
		if _, err := audit.Open(audit.Config{File: file, Log: zerolog.Nop()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// TestNilLog checks that a nil log accepts entries.
func TestNilLog(t *testing.T) {
	var l *audit.Log
	l.Record(audit.Entry{Result: audit.Done})
}
