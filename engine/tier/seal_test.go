package tier

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSum: however a block comes, its sum is its seal.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 900<<10).Draw(t, "bytes")
		sealed := append(content(n, n), make([]byte, SealBytes)...)
		Seal(testHash(1), n, 0, sealed)
		s := NewSum(testHash(1), n, 0)
		for rest := sealed[:n]; len(rest) > 0; {
			m := min(len(rest), rapid.SampledFrom([]int{1, 24, 4096, 10_000, 16 << 10, 64 << 10, 500_000}).Draw(t, "came"))
			_, _ = s.Write(rest[:m])
			rest = rest[m:]
		}
		if got := s.Sum(nil); string(got) != string(sealed[n:]) {
			t.Errorf("a sum of %x, and the seal is %x", got, sealed[n:])
		}
		s.Reset()
		if _, _ = s.Write(sealed[1:n]); n > 1 && string(s.Sum(nil)) == string(sealed[n:]) {
			t.Error("what is not the block has its seal")
		}
	})
}
