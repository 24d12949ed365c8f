package tier

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"troupe/core/kv"
)

// writerEnv makes the test binary a process that writes blocks to the file of that name, until it is killed.
const writerEnv = "TIER_TEST_WRITES"

const (
	killSlots = 16
	killBytes = 64 << 10
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		writeForever(path)
	}
	os.Exit(m.Run())
}

// writeForever writes block n to slot n modulo the slots, and says so before and after.
func writeForever(path string) {
	f, err := OpenFile(FileConfig{Path: path, Slots: killSlots, SlotBytes: killBytes})
	if err != nil {
		panic(err)
	}
	first := 0
	for _, h := range f.Held() { // go on where the last one was killed
		for n := range 1 << 16 {
			if testHash(n) == h.Hash {
				first = max(first, n+1)
			}
		}
	}
	for n := first; ; n++ {
		fmt.Println("begin", n)
		if err := f.Write(context.Background(), int32(n%killSlots), testHash(n), content(n, killBytes)); err != nil {
			panic(err)
		}
		fmt.Println("wrote", n)
	}
}

// killWriter lets a process write some blocks, kills it in the middle of another, and returns the last it had written and the last it had begun.
func killWriter(t *testing.T, path string, blocks int) (wrote, begun int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for n := 0; in.Scan(); n++ { // what it says after it was killed counts as well
		verb, number, _ := strings.Cut(in.Text(), " ")
		last := &begun
		if verb == "wrote" {
			last = &wrote
		}
		if _, err := fmt.Sscan(number, last); err != nil {
			t.Fatalf("%q: %v", in.Text(), err)
		}
		if n == 2*blocks {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	return wrote, begun
}

// TestKilledWriter: however a writer ends, what it had written is there, and what it was writing is there or not, but never wrong.
func TestKilledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tier")
	for round := range 12 {
		wrote, begun := killWriter(t, path, 5+3*round)
		f, held := open(t, FileConfig{Path: path, Slots: killSlots, SlotBytes: killBytes})
		slots := map[int32]Held{}
		for _, h := range held {
			slots[h.Slot] = h
		}
		got := make([]byte, killBytes)
		for n := max(0, begun-killSlots+1); n <= wrote; n++ {
			h, ok := slots[int32(n%killSlots)]
			if err := f.Read(t.Context(), int32(n%killSlots), testHash(n), got); err != nil || !bytes.Equal(got, content(n, killBytes)) || !ok || h.Hash != testHash(n) {
				t.Errorf("round %d: block %d of %d is lost: %v, held %v", round, n, wrote, err, h)
			}
		}
		if begun != wrote {
			for _, n := range []int{begun, begun - killSlots} {
				if n < 0 {
					continue
				}
				if err := f.Read(t.Context(), int32(begun%killSlots), testHash(n), got); err == nil && !bytes.Equal(got, content(n, killBytes)) {
					t.Errorf("round %d: block %d is wrong", round, n)
				} else if err != nil && !errors.Is(err, ErrDamaged) {
					t.Error(err)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedFile: bits flip, sectors are lost, the file is cut; afterwards every block is what it was, or gone.
func TestDamagedFile(t *testing.T) {
	const slots = 3
	whole := filepath.Join(t.TempDir(), "whole")
	cfg := FileConfig{Path: whole, Slots: slots, SlotBytes: testBytes, Depth: 2}
	f, _ := open(t, cfg)
	for n := range slots {
		if err := f.Write(t.Context(), int32(n), testHash(n), content(n, testBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Path = filepath.Join(filepath.Dir(whole), "damaged")
	rapid.Check(t, func(t *rapid.T) {
		b := slices.Clone(image)
		hurt := map[int]bool{}
		mark := func(at int) { hurt[(at-sector)/cfg.stride()] = true }
		switch rapid.SampledFrom([]string{"flip", "header", "sector", "cut", "swap"}).Draw(t, "damage") {
		case "flip":
			at := rapid.IntRange(sector, len(b)-1).Draw(t, "at")
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			mark(at)
		case "header":
			at := cfg.at(int32(rapid.IntRange(0, slots-1).Draw(t, "slot"))) + int64(rapid.IntRange(0, 55).Draw(t, "byte"))
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			mark(int(at))
		case "sector":
			at := sector * rapid.IntRange(1, len(b)/sector-1).Draw(t, "sector")
			clear(b[at : at+sector])
			mark(at)
		case "cut":
			at := rapid.IntRange(sector, len(b)).Draw(t, "at")
			b = b[:at]
			for ; at < len(image); at += sector {
				mark(at)
			}
		case "swap": // a misdirected write: one slot's bytes, whole, in place of another's
			copy(b[cfg.at(0):], image[cfg.at(1):cfg.at(2)])
			hurt[0] = true
		}
		if err := os.WriteFile(cfg.Path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		held := f.Held()
		at := map[kv.Hash]int32{}
		for _, h := range held {
			at[h.Hash] = h.Slot
			if !slices.ContainsFunc([]int{0, 1, 2}, func(n int) bool { return testHash(n) == h.Hash }) {
				t.Fatalf("held is %v, which nobody wrote", h)
			}
		}
		got := make([]byte, testBytes)
		for n := range slots {
			slot, listed := at[testHash(n)]
			if !listed {
				slot = int32(n)
			}
			err := f.Read(context.Background(), slot, testHash(n), got)
			switch {
			case err == nil && !bytes.Equal(got, content(n, testBytes)):
				t.Fatalf("block %d is wrong", n)
			case err != nil && !errors.Is(err, ErrDamaged):
				t.Fatal(err)
			case !hurt[n] && (err != nil || !listed):
				t.Fatalf("block %d was not touched, and is lost: %v; held %v", n, err, held)
			}
		}
	})
}

// TestLaterWriteCounts: a block that two slots hold is held once, in the one that was written later, also after another restart.
func TestLaterWriteCounts(t *testing.T) {
	cfg := FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slots: 4, SlotBytes: testBytes}
	for _, slot := range []int32{2, 0, 3} {
		f, _ := open(t, cfg)
		if err := f.Write(t.Context(), slot, testHash(1), content(1, testBytes)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		f, held := open(t, cfg)
		if len(held) != 1 || held[0] != (Held{slot, testHash(1), testBytes}) {
			t.Errorf("held %v, not in slot %d", held, slot)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilesThatAreRefused: those of another process, those that are something else, and those that there is no room for, which stay what they were.
func TestFilesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	cfg := FileConfig{Path: filepath.Join(dir, "tier"), Slots: 2, SlotBytes: testBytes}
	f, _ := open(t, cfg)
	if _, err := OpenFile(cfg); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a file that is open: %v", err)
	}
	if err := errors.Join(f.Write(t.Context(), 1, testHash(1), content(1, testBytes)), f.Close()); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, []byte("a letter"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(FileConfig{Path: foreign, Slots: 2, SlotBytes: testBytes}); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("a letter: %v", err)
	}
	if b, err := os.ReadFile(foreign); err != nil || string(b) != "a letter" {
		t.Errorf("the letter is now %q, %v", b, err)
	}
	large := cfg
	large.Slots = 1 << 30
	large.SlotBytes = testBytes
	if _, err := OpenFile(large); err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a petabyte: %v", err)
	}
	f, held := open(t, cfg)
	if len(held) != 1 {
		t.Errorf("held %v after it could not be made larger", held)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.SlotBytes *= 2
	f, held = open(t, cfg)
	defer f.Close()
	if len(held) != 0 {
		t.Errorf("held %v in slots of another size", held)
	}
	if _, err := OpenFile(FileConfig{Path: foreign}); err == nil {
		t.Error("a file of no slots")
	}
}

// faulty is a disk that is full, or slow.
type faulty struct {
	disk
	full bool
	slow chan struct{} // a read or write waits for it
}

func (d *faulty) WriteAt(b []byte, at int64) (int, error) {
	if d.full {
		n, _ := d.disk.WriteAt(b[:sector], at) // torn: the header is there, the block is not
		return n, unix.ENOSPC
	}
	return d.disk.WriteAt(b, at)
}

func (d *faulty) ReadAt(b []byte, at int64) (int, error) {
	if d.slow != nil {
		<-d.slow
	}
	return d.disk.ReadAt(b, at)
}

// TestFullDisk: a write that fails says so, and what it left in the slot is not taken for the block.
func TestFullDisk(t *testing.T) {
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slots: 2, SlotBytes: testBytes})
	defer f.Close()
	d := &faulty{disk: f.disk}
	f.disk = d
	if err := f.Write(t.Context(), 1, testHash(1), content(1, testBytes)); err != nil {
		t.Fatal(err)
	}
	d.full = true
	if err := f.Write(t.Context(), 1, testHash(2), content(2, testBytes)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
	for n := 1; n <= 2; n++ {
		if err := f.Read(t.Context(), 1, testHash(n), make([]byte, testBytes)); !errors.Is(err, ErrDamaged) {
			t.Errorf("block %d: %v", n, err)
		}
	}
}

// TestSlowDisk: a reader does not wait longer than it wants to, its memory is left alone afterwards, and others get a turn as long as there is one.
func TestSlowDisk(t *testing.T) {
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slots: 2, SlotBytes: testBytes, Depth: 2})
	if err := f.Write(t.Context(), 0, testHash(0), content(0, testBytes)); err != nil {
		t.Fatal(err)
	}
	d := &faulty{disk: f.disk, slow: make(chan struct{})}
	f.disk = d
	got := make([]byte, testBytes)
	for range 3 { // the third finds no turn
		ctx, end := context.WithTimeout(t.Context(), time.Millisecond)
		if err := f.Read(ctx, 0, testHash(0), got); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		end()
	}
	close(d.slow)
	if err := f.Read(t.Context(), 0, testHash(0), make([]byte, testBytes)); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, make([]byte, testBytes)) {
		t.Error("a reader that had gone was written to")
	}
}

// TestWithoutDirect: a file system that can not pass by the page cache does as well.
func TestWithoutDirect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tier")
	cfg := FileConfig{Path: path, Slots: 2, SlotBytes: testBytes, noDirect: true}
	f, _ := open(t, cfg)
	if f.Direct() {
		t.Error("it passes by the page cache")
	}
	if err := errors.Join(f.Write(t.Context(), 1, testHash(1), content(1, testBytes)), f.Close()); err != nil {
		t.Fatal(err)
	}
	cfg.noDirect = false
	f, held := open(t, cfg)
	defer f.Close()
	got := make([]byte, testBytes)
	if err := f.Read(t.Context(), 1, testHash(1), got); len(held) != 1 || err != nil || !bytes.Equal(got, content(1, testBytes)) {
		t.Errorf("held %v, %v", held, err)
	}
}
