package tokenizer_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/modelfile/tokenizer"
)

// stopAt checks each position of the text in order, and takes the longest stop string that ends
// there.
func stopAt(text string, stops []string) (start, end int) {
	for end := range len(text) + 1 {
		longest := ""
		for _, stop := range stops {
			if strings.HasSuffix(text[:end], stop) && len(stop) > len(longest) {
				longest = stop
			}
		}
		if longest != "" {
			return end - len(longest), end
		}
	}
	return len(text), 0
}

func TestStopperIsIndependentOfSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{0,20}`).Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringMatching(`[ab]{0,5}`), 0, 4).Draw(t, "stops")
		include := rapid.Bool().Draw(t, "include")
		s := tokenizer.NewStopper(stops)
		want, end := stopAt(text, stops)
		if include {
			s.Include()
			want = max(want, end)
		}
		got, stopped := "", false
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			var piece string
			piece, stopped = s.Push(rest[:n])
			got += piece
			rest = rest[n:]
			if !strings.HasPrefix(text[:want], got) {
				t.Fatalf("got %q, but the text before the stop is %q", got, text[:want])
			}
		}
		got += s.Flush()
		if got != text[:want] || stopped != (end > 0) {
			t.Fatalf("got %q, %v; want %q, %v", got, stopped, text[:want], end > 0)
		}
	})
}

func TestStopperOrder(t *testing.T) {
	for _, tc := range []struct {
		name  string
		stops []string
		want  string
	}{
		{"the one complete first, though another started earlier", []string{"abcd", "bc"}, "xxa"},
		{"the longest of those that complete together", []string{"c", "bc"}, "xxa"},
		{"the same in another order", []string{"bc", "c"}, "xxa"},
		{"the first of several positions", []string{"x"}, ""},
	} {
		s := tokenizer.NewStopper(tc.stops)
		if got, stopped := s.Push("xxabcdx"); got != tc.want || !stopped {
			t.Errorf("%s: got %q, %v, want %q", tc.name, got, stopped, tc.want)
		}
	}
}

func TestStopperHoldsBackMinimum(t *testing.T) {
	s := tokenizer.NewStopper([]string{"\n\nUser:", "END"})
	for _, step := range []struct{ piece, text string }{
		{"Hello", "Hello"}, {" there.\n", " there."}, {"Next", "\nNext"}, {"E", ""}, {"E", "E"}, {"NX", "ENX"},
		{"\n\nUser", ""},
	} {
		if text, stopped := s.Push(step.piece); text != step.text || stopped {
			t.Errorf("%q: got %q, %v, want %q", step.piece, text, stopped, step.text)
		}
	}
	if text := s.Flush(); text != "\n\nUser" {
		t.Errorf("flushed %q", text)
	}
}
