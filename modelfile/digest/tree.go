package digest

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/zeebo/blake3"
)

// Sum is a BLAKE3 hash.
type Sum [32]byte

// String returns the hash in hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Parse parses the result of String.
func Parse(text string) (s Sum, err error) {
	b, err := hex.DecodeString(text)
	if err == nil && len(b) != len(s) {
		err = fmt.Errorf("a digest has %d bytes, got %d", len(s), len(b))
	}
	copy(s[:], b)
	return s, err
}

// Short returns the first digits of a digest, for humans.
func Short(digest string) string { return digest[:min(len(digest), 12)] }

// File is a file in a list.
type File struct {
	Name string // without the folder
	Size int64
	Sum  Sum
}

// Weights returns the digest of a model's weights.
func Weights(files []File) Sum { return tree("weights", files) }

// Revision returns the digest of weights and settings together.
func Revision(weights, settings Sum) Sum {
	return tree("revision", []File{{Name: "weights", Sum: weights}, {Name: "settings", Sum: settings}})
}

// tree returns the digest of a list of files, sorted by name.
func tree(kind string, files []File) (sum Sum) {
	h := blake3.New()
	text := func(s string) { write(h, binary.LittleEndian.AppendUint64(nil, uint64(len(s)))); write(h, []byte(s)) }
	text("troupe " + kind + " 1")
	for _, f := range slices.SortedFunc(slices.Values(files), compareNames) {
		text(f.Name)
		write(h, binary.LittleEndian.AppendUint64(nil, uint64(f.Size)))
		write(h, f.Sum[:])
	}
	h.Sum(sum[:0])
	return sum
}

func compareNames(a, b File) int { return cmp.Compare(a.Name, b.Name) }

// fileSum returns the digest of a file from its size and the hashes of its chunks.
func fileSum(size int64, chunks []Chunk) (sum Sum) {
	h := blake3.New()
	write(h, []byte("troupe file 1"))
	write(h, binary.LittleEndian.AppendUint64(nil, uint64(size)))
	for _, c := range chunks {
		write(h, c.sum[:])
	}
	h.Sum(sum[:0])
	return sum
}

func write(h *blake3.Hasher, b []byte) { _, _ = h.Write(b) } // never fails
