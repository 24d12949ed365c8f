package spec

import "testing"

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"512MiB": 512 << 20, "1.5 GiB": 3 << 29, "4096": 4096, "2GB": 2e9, " 7 B ": 7, "0": 0} {
		if got, err := ParseBytes(text); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1GiB", "1XiB", "NaN", "1e30GiB", "0x10"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 20: "1 MiB", 3 << 29: "1.5 GiB", 5 << 40: "5 TiB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestKVTokenBytes: Llama-70B with grouped-query attention (80 layers, 8 KV heads of 128) in BF16.
func TestKVTokenBytes(t *testing.T) {
	if got := KVTokenBytes(80, 8, 128, 2); got != 327_680 || 16*got != 5_242_880 {
		t.Error(got)
	}
}

func TestKVBlocks(t *testing.T) {
	base := KVRequest{Free: 1000, BlockBytes: 10, BlockTokens: 16, ContextTokens: 160, MaxSequences: 2}
	for name, tc := range map[string]struct {
		change func(*KVRequest)
		want   int
	}{
		"what all sequences could use":    {func(*KVRequest) {}, 20},
		"within half of what is free":     {func(r *KVRequest) { r.MaxSequences = 100 }, 50},
		"one of full length, beyond half": {func(r *KVRequest) { r.ContextTokens = 16 * 80 }, 80},
		"all, where one does not fit":     {func(r *KVRequest) { r.ContextTokens = 16 * 500 }, 100},
		"as asked for":                    {func(r *KVRequest) { r.Asked = 99 }, 99},
		"more than fits":                  {func(r *KVRequest) { r.Asked = 101 }, 0},
		"no room for the weights":         {func(r *KVRequest) { r.Free = -1 }, 0},
		"no room for a block":             {func(r *KVRequest) { r.Free = 9 }, 0},
	} {
		r := base
		tc.change(&r)
		if got, why := KVBlocks(r); got != tc.want || why == "" {
			t.Errorf("%s: %d, %q", name, got, why)
		}
	}
}
