package units

import "testing"

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"512MiB": 512 << 20, "1.5 GiB": 3 << 29, "4096": 4096, "2GB": 2e9,
		" 7 B ": 7, "0": 0} {
		if got, err := ParseBytes(text); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1GiB", "1XiB", "NaN", "1e30GiB", "0x10"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is parsed as %d", text, got)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 20: "1 MiB", 3 << 29: "1.5 GiB",
		5 << 40: "5 TiB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestKVTokenBytes computes the size for Llama-70B in BF16 with grouped-query attention: 80 layers
// and 8 KV heads of dimension 128.
func TestKVTokenBytes(t *testing.T) {
	if got := KVTokenBytes(80, 8, 128, 2); got != 327_680 || 16*got != 5_242_880 {
		t.Error(got)
	}
}

func TestKVSizeBlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		size               KVSize
		most, least, alone int
	}{
		"MinSequenceTokens for each sequence": {KVSize{16, 1024, 64, 0}, 4096, 1024, 1},
		"one sequence of full length":         {KVSize{16, 1 << 17, 4, 0}, 1 << 15, 1 << 13, 1},
		"at most all of full length":          {KVSize{16, 160, 2, 0}, 20, 20, 1},
		"requested":                           {KVSize{16, 160, 2, 99}, 99, 99, 99},
		"partial last block":                  {KVSize{16, 17, 1, 0}, 2, 2, 1},
		"zero values count as one":            {KVSize{0, 3, 0, 0}, 3, 3, 1},
	} {
		if s := tc.size; s.Max() != tc.most || s.Min() != tc.least || s.MinAlone() != tc.alone {
			t.Errorf("%s: %d, %d and %d", name, s.Max(), s.Min(), s.MinAlone())
		}
	}
}

// TestCount checks the forms of nouns and verbs with numbers.
func TestCount(t *testing.T) {
	for n, want := range []string{"0 replicas wait", "1 replica waits", "2 replicas wait"} {
		if got := Count(n, "replica") + Verb(n, " waits", " wait"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
