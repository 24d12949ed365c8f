package kvstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadableSectors: a block that the disk cannot read is damaged, and the others are intact,
// even if the file is opened on such a disk.
func TestUnreadableSectors(t *testing.T) {
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(2, 2, testBytes)})
	defer f.Close()
	for slot := range 3 {
		i := f.cut.Slot(slot/2, slot%2)
		if err := f.Write(t.Context(), i, testHash(slot), content(slot, testBytes)); err != nil {
			t.Fatal(err)
		}
	}
	f.disk = &faulty{Disk: f.disk, lost: f.at(1, testBytes)}
	err := f.Read(t.Context(), 1, testHash(1), make([]byte, testBytes))
	if !errors.Is(err, ErrDamaged) || !errors.Is(err, unix.EIO) {
		t.Errorf("%v", err)
	}
	if err := f.Read(t.Context(), 0, testHash(0), make([]byte, testBytes)); err != nil {
		t.Error(err)
	}
	f.scan()
	if held := f.Held(); len(held) != 1 || held[0].Hash != testHash(0) || f.UnreadSectors() != 2 {
		t.Errorf("held %v, %d sectors were not read", held, f.UnreadSectors())
	}
}

// TestDamagedName: a file with a damaged or truncated name is emptied, and does not prevent
// opening.
func TestDamagedName(t *testing.T) {
	for _, cutTo := range []int64{0, 100} {
		cfg := FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 2, testBytes)}
		f, _ := open(t, cfg)
		if f.Emptied() {
			t.Error("a new file was emptied")
		}
		if err := errors.Join(f.Write(t.Context(), 1, testHash(1), content(1, testBytes)), f.Close()); err != nil {
			t.Fatal(err)
		}
		if cutTo > 0 {
			if err := os.Truncate(cfg.Path, cutTo); err != nil {
				t.Fatal(err)
			}
		} else {
			b, err := os.ReadFile(cfg.Path)
			if err != nil {
				t.Fatal(err)
			}
			b[9] ^= 1
			if err := os.WriteFile(cfg.Path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, held := open(t, cfg)
		if len(held) != 0 || !f.Emptied() {
			t.Errorf("held %v, emptied %v", held, f.Emptied())
		}
		if err := errors.Join(f.Write(t.Context(), 0, testHash(2), content(2, testBytes)), f.Close()); err != nil {
			t.Fatal(err)
		}
		f, held = open(t, cfg)
		if len(held) != 1 {
			t.Errorf("held %v", held)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
