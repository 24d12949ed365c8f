package kvstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"troupe/core/kv"
	"troupe/testkit"
)

// writerEnv makes the test binary a process that writes blocks to the named file until it is
// killed.
const writerEnv = "TIER_TEST_WRITES"

// The writer fills slabs of killSlab blocks in a cycle, in each round with blocks of another size
// than before.
const (
	killSlabs = 4
	killSlab  = 4
	killBytes = 64 << 10 // size of the larger blocks
)

func killCut() kv.Slabs { return cut(killSlabs, killSlab, killBytes) }

// killBlock returns the slot and the size of block n.
func killBlock(n int) (slot int32, size int) {
	round, at := n/(killSlabs*killSlab), n%(killSlabs*killSlab)
	return killCut().Slot(at/killSlab, at%killSlab), killBytes >> (2 * (round % 2))
}

// killUntil returns the first block whose write gives block n's slab to blocks of another size.
func killUntil(n int) int { return n - n%killSlab + killSlabs*killSlab }

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		writeForever(path)
	}
	os.Exit(m.Run())
}

// writeForever writes one block after another and reports each before and after on stdout.
func writeForever(path string) {
	f, err := OpenFile(FileConfig{Path: path, Slabs: killCut()})
	if err != nil {
		panic(err)
	}
	held := make(map[kv.Hash]bool)
	for _, h := range f.Held() {
		held[h.Hash] = true
	}
	first, found := 0, 0
	for n := 0; found < len(held); n++ { // continue where the last writer was killed
		if held[testHash(n)] {
			first, found = n+1, found+1
		}
	}
	for n := first; ; n++ {
		fmt.Println("begin", n)
		slot, size := killBlock(n)
		if err := f.Write(context.Background(), slot, testHash(n), content(n, size)); err != nil {
			panic(err)
		}
		fmt.Println("wrote", n)
	}
}

// killWriter starts a writer, kills it during a write, and returns the last block written and the
// last begun.
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
	for n := 0; in.Scan(); n++ { // lines that it wrote before it was killed count too
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

// TestKilledWriter: after a writer was killed, every block that it had written is intact. A block
// being written may be missing but is never wrong.
func TestKilledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tier")
	for round := range 12 {
		wrote, begun := killWriter(t, path, 5+3*round)
		f, held := open(t, FileConfig{Path: path, Slabs: killCut()})
		for n := max(0, begun-2*killSlabs*killSlab); n <= begun; n++ {
			slot, size := killBlock(n)
			got := make([]byte, size)
			err := f.Read(t.Context(), slot, testHash(n), got)
			if err == nil && !bytes.Equal(got, content(n, size)) {
				t.Errorf("round %d: block %d is wrong", round, n)
			} else if err != nil && !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
			if n <= wrote && begun < killUntil(n) &&
				(err != nil || !slices.Contains(held, Held{slot, testHash(n), size})) {
				t.Errorf("round %d: block %d of %d is missing: %v", round, n, wrote, err)
			}
			if n <= wrote && wrote >= killUntil(n) && slices.Contains(held, Held{slot, testHash(n), size}) {
				t.Errorf(
					"round %d: block %d is held although block %d was written to its slab",
					round,
					n,
					killUntil(n),
				)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedFile: after flipped bits, lost sectors or truncation, every block is intact or
// missing. The second of the two slabs had blocks of the first one's size before.
func TestDamagedFile(t *testing.T) {
	const large = 3 * testBytes
	whole := filepath.Join(t.TempDir(), "whole")
	cfg := FileConfig{Path: whole, Slabs: cut(2, 3, testBytes), Depth: 2}
	f, _ := open(t, cfg)
	at := func(n int) (slot int32, size int) {
		if n == 6 {
			return f.cut.Slot(1, 0), large
		}
		return f.cut.Slot(n/3, n%3), testBytes
	}
	name := make([]byte, sector) // of the second slab, before its block size changed
	for n := range 7 {
		if _, err := f.disk.ReadAt(name, f.slabAt(1)); n == 6 && err != nil {
			t.Fatal(err)
		}
		slot, size := at(n)
		if err := f.Write(t.Context(), slot, testHash(n), content(n, size)); err != nil {
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
		hurt := map[int]bool{3: true, 4: true, 5: true} // dropped when the slab changed
		mark := func(byte int) {
			for n := range 7 {
				slot, size := at(n)
				slab, _ := f.cut.Locate(slot)
				named, begins := int(f.slabAt(slab)), int(f.at(slot, size))
				if byte >= named && byte < named+sector || byte >= begins && byte < begins+sector+sectors(size) {
					hurt[n] = true
				}
			}
		}
		switch rapid.SampledFrom([]string{"flip", "header", "sector", "cut", "swap", "name"}).Draw(t, "damage") {
		case "flip":
			at := rapid.IntRange(sector, len(b)-1).Draw(t, "at")
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			mark(at)
		case "header":
			at := f.at(
				at(rapid.SampledFrom([]int{0, 1, 2, 6}).Draw(t, "block")),
			) + int64(
				rapid.IntRange(0, 55).Draw(t, "byte"),
			)
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
		case "swap": // a misdirected write: one slot's bytes in place of another's
			copy(b[f.at(0, testBytes):], image[f.at(1, testBytes):f.at(2, testBytes)])
			hurt[0] = true
		case "name": // a lost write
			copy(b[f.slabAt(1):], name)
			hurt[6] = true
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
		for n := range 7 {
			slot, size := at(n)
			got := make([]byte, size)
			err := f.Read(context.Background(), slot, testHash(n), got)
			listed := slices.ContainsFunc(
				held,
				func(h Held) bool { return h.Hash == testHash(n) && h.Bytes == size && (h.Slot == slot || n < 2) },
			)
			held = slices.DeleteFunc(held, func(h Held) bool { return h.Hash == testHash(n) })
			switch {
			case err == nil && !bytes.Equal(got, content(n, size)):
				t.Fatalf("block %d is wrong", n)
			case err != nil && !errors.Is(err, ErrDamaged):
				t.Fatal(err)
			case !hurt[n] && (err != nil || !listed):
				t.Fatalf("undamaged block %d is missing: %v", n, err)
			}
		}
		if len(held) > 0 {
			t.Fatalf("held %v, which was never written", held)
		}
	})
}

// TestLaterWriteCounts: a block in two slots is held once, in the slot written later, also after
// another restart.
func TestLaterWriteCounts(t *testing.T) {
	cfg := FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 4, testBytes)}
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

// TestOpenRejectsFile: a file of another process, a foreign file, or one that does not fit on the
// disk is rejected and left unchanged.
func TestOpenRejectsFile(t *testing.T) {
	dir := t.TempDir()
	cfg := FileConfig{Path: filepath.Join(dir, "tier"), Slabs: cut(1, 2, testBytes)}
	f, _ := open(t, cfg)
	if _, err := OpenFile(cfg); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("an open file: %v", err)
	}
	if err := errors.Join(f.Write(t.Context(), 1, testHash(1), content(1, testBytes)), f.Close()); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, []byte("a letter"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(FileConfig{Path: foreign, Slabs: cut(1, 2, testBytes)}); err == nil ||
		!strings.Contains(err.Error(), "other data") {
		t.Errorf("a letter: %v", err)
	}
	if _, err := OpenFile(FileConfig{Path: dir, Slabs: cut(1, 2, testBytes)}); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if b, err := os.ReadFile(foreign); err != nil || string(b) != "a letter" {
		t.Errorf("the letter is now %q, %v", b, err)
	}
	large := cfg
	large.Slabs.Count = math.MaxInt32 / 7 // 8 TiB
	testkit.Allocates(t, 1<<20, func() {
		if _, err := OpenFile(large); err == nil || !strings.Contains(err.Error(), "free disk space") {
			t.Errorf("too large for the disk: %v", err)
		}
	})
	large.Slabs.Count++
	if _, err := OpenFile(large); err == nil || !strings.Contains(err.Error(), "too many slots") {
		t.Errorf("too large at all: %v", err)
	}
	f, held := open(t, cfg)
	if len(held) != 1 {
		t.Errorf("held %v after a failed enlargement", held)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Slabs.Bytes *= 2
	f, held = open(t, cfg)
	defer f.Close()
	if len(held) != 0 || !f.Emptied() {
		t.Errorf("held %v in slabs of another size", held)
	}
	if _, err := OpenFile(FileConfig{Path: foreign}); err == nil {
		t.Error("a file without slabs was opened")
	}
}

// faulty is a disk that is full, slow, or unreadable from some offset on.
type faulty struct {
	Disk
	full bool
	lost int64         // 0 means all is readable
	came chan struct{} // receives a value per read, if the disk is slow
	slow chan struct{} // a read waits for a value
}

func (d *faulty) WriteAt(b []byte, at int64) (int, error) {
	if d.full {
		n, _ := d.Disk.WriteAt(b[:sector], at) // a torn write: only the header is written
		return n, unix.ENOSPC
	}
	return d.Disk.WriteAt(b, at)
}

func (d *faulty) ReadAt(b []byte, at int64) (int, error) {
	if d.slow != nil {
		d.came <- struct{}{}
		<-d.slow
	}
	if d.lost > 0 && at+int64(len(b)) > d.lost {
		return 0, unix.EIO
	}
	return d.Disk.ReadAt(b, at)
}

// TestFullDisk: a failed write returns an error, and its slot counts as empty.
func TestFullDisk(t *testing.T) {
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 2, testBytes)})
	defer f.Close()
	d := &faulty{Disk: f.disk}
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
	if held := f.Held(); len(held) != 0 {
		t.Errorf("held %v", held)
	}
}

// TestWithoutDirect: a file system without O_DIRECT works too.
func TestWithoutDirect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tier")
	cfg := FileConfig{Path: path, Slabs: cut(1, 2, testBytes), noDirect: true}
	f, _ := open(t, cfg)
	if f.Direct() {
		t.Error("Direct reports true")
	}
	if err := errors.Join(f.Write(t.Context(), 1, testHash(1), content(1, testBytes)), f.Close()); err != nil {
		t.Fatal(err)
	}
	cfg.noDirect = false
	f, held := open(t, cfg)
	defer f.Close()
	got := make([]byte, testBytes)
	if err := f.Read(t.Context(), 1, testHash(1), got); len(held) != 1 || err != nil ||
		!bytes.Equal(got, content(1, testBytes)) {
		t.Errorf("held %v, %v", held, err)
	}
}
