package digest_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"troupe/modelfile"
	"troupe/modelfile/digest"
)

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// TestChecksumOfQuickChunks checks that chunks without hashes have the checksum of those with hashes.
func TestChecksumOfQuickChunks(t *testing.T) {
	b := noise(digest.ChunkBytes + 12345)
	quick := []digest.Chunk{
		digest.ChunkOf(b[:digest.ChunkBytes], true), digest.ChunkOf(b[digest.ChunkBytes:], true),
	}
	if got, want := digest.Join(int64(len(b)), quick), digest.Of(b); got.Check != want.Check || got.Sum == want.Sum {
		t.Errorf("%v, and with hashes %v", got, want)
	}
}

// TestAnyByteCounts checks that a flipped byte, swapped chunks and another length each change the
// content.
func TestAnyByteCounts(t *testing.T) {
	b := noise(2*digest.ChunkBytes + 100)
	seen := map[digest.Sum]string{digest.Of(b).Sum: "unchanged"}
	checks := map[uint64]bool{digest.Of(b).Check: true}
	other := func(name string, b []byte) {
		c := digest.Of(b)
		if before, ok := seen[c.Sum]; ok || checks[c.Check] {
			t.Errorf("%s: same digest as %q, or same checksum", name, before)
		}
		seen[c.Sum], checks[c.Check] = name, true
	}
	for _, at := range []int{0, 1, digest.ChunkBytes - 1, digest.ChunkBytes, 2 * digest.ChunkBytes, len(b) - 1} {
		flipped := bytes.Clone(b)
		flipped[at] ^= 1
		other("flipped", flipped)
	}
	one, two, rest := b[:digest.ChunkBytes], b[digest.ChunkBytes:2*digest.ChunkBytes], b[2*digest.ChunkBytes:]
	other("chunks swapped", bytes.Join([][]byte{two, one, rest}, nil))
	other("shorter", b[:len(b)-1])
	other("appended zero", append(bytes.Clone(b), 0))
	other("empty", nil)
}

// TestWeightsDependOnNames checks that the digest depends on names and sizes, but not on the order
// of files.
func TestWeightsDependOnNames(t *testing.T) {
	a, b := digest.File{Name: "a", Size: 1, Sum: digest.Sum{1}}, digest.File{Name: "b", Size: 1, Sum: digest.Sum{2}}
	want := digest.Weights([]digest.File{a, b})
	if digest.Weights([]digest.File{b, a}) != want {
		t.Error("the digest depends on the order")
	}
	for name, files := range map[string][]digest.File{
		"names":          {{Name: "b", Size: 1, Sum: a.Sum}, {Name: "a", Size: 1, Sum: b.Sum}},
		"a size":         {{Name: "a", Size: 2, Sum: a.Sum}, b},
		"a missing file": {a},
	} {
		if digest.Weights(files) == want {
			t.Errorf("same digest with other %s", name)
		}
	}
	if s, err := digest.Parse(want.String()); s != want || err != nil {
		t.Error(s, err)
	}
}

// TestCacheByEachFieldOfTheStamp checks that a file is unknown if any field of its stamp differs.
func TestCacheByEachFieldOfTheStamp(t *testing.T) {
	stamp, c := digest.Stamp{Size: 1, MTime: 2, CTime: 3, Inode: 4, Device: 5}, digest.Content{Check: 7}
	for name, change := range map[string]func(*digest.Stamp){
		"size": func(s *digest.Stamp) { s.Size++ }, "mtime": func(s *digest.Stamp) { s.MTime++ },
		"ctime": func(s *digest.Stamp) { s.CTime++ }, "inode": func(s *digest.Stamp) { s.Inode++ },
		"device": func(s *digest.Stamp) { s.Device++ },
	} {
		var cache digest.Cache
		cache.Put("f", stamp, c, time.Now())
		if got, ok := cache.Find("f", stamp); !ok || got != c {
			t.Error("not found after Put")
		}
		other := stamp
		if change(&other); other == stamp {
			t.Fatal(name)
		}
		if _, ok := cache.Find("f", other); ok {
			t.Errorf("found with another %s", name)
		}
	}
	var cache digest.Cache
	cache.Put("f", digest.Stamp{CTime: time.Now().UnixNano()}, c, time.Now())
	if _, ok := cache.Find("f", digest.Stamp{}); ok {
		t.Error("stored a file that was written while it was read")
	}
}

// TestStampOfAFile checks that replacing a file changes its stamp, even with the same size and
// mtime.
func TestStampOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	stamp := func() digest.Stamp {
		info, err := modelfile.Roots{}.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return digest.StampOf(info)
	}
	write(path, "one")
	first := stamp()
	for stamp().CTime == first.CTime { // until the file system clock advances
		write(path, "two")
	}
	write(path+".new", "two")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	second := stamp()
	if second.Size != first.Size || second.MTime != first.MTime || second.Inode == first.Inode ||
		second.CTime == first.CTime {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// TestSettings checks that the digest covers the listed files and no others.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := func() digest.Sum {
		s, err := digest.Settings(modelfile.Roots{}, dir, &digest.Cache{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	last := sum()
	for name := range digest.SettingsFiles {
		put(name, "{}")
		if next := sum(); next == last {
			t.Errorf("%s does not change the digest", name)
		} else {
			last = next
		}
	}
	put("README.md", "x")
	if sum() != last {
		t.Error("an unlisted file changes the digest")
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil || sum() != last {
		t.Error("a FIFO changes the digest", err)
	}
}
