package kvstore

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSealHash: the incremental sum of a block equals its seal, however the writes are split.
func TestSealHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 900<<10).Draw(t, "bytes")
		sealed := append(content(n, n), make([]byte, SealBytes)...)
		Seal(testHash(1), n, 0, sealed)
		s := NewSealHash(testHash(1), n, 0)
		for rest := sealed[:n]; len(rest) > 0; {
			m := min(
				len(rest),
				rapid.SampledFrom([]int{1, 24, 4096, 10_000, 16 << 10, 64 << 10, 500_000}).Draw(t, "came"),
			)
			_, _ = s.Write(rest[:m])
			rest = rest[m:]
		}
		if got := s.Sum(nil); string(got) != string(sealed[n:]) {
			t.Errorf("sum %x, seal %x", got, sealed[n:])
		}
		s.Reset()
		if _, _ = s.Write(sealed[1:n]); n > 1 && string(s.Sum(nil)) == string(sealed[n:]) {
			t.Error("other bytes have the block's seal")
		}
	})
}
