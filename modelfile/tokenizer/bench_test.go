package tokenizer_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"troupe/testkit"
)

// BenchmarkEncode encodes prose whose words are cached, words that are not cached, and one very
// long word.
func BenchmarkEncode(b *testing.B) {
	tok := load(b, testkit.Model())
	prose := strings.Repeat("In the beginning God created the heaven and the earth. ", 5000)
	random := rand.New(rand.NewPCG(1, 2))
	var words, word []byte
	for range len(prose) {
		letter := "etaoinshrdlu"[random.IntN(12)]
		words, word = append(words, letter), append(word, letter)
		if random.IntN(6) == 0 {
			words = append(words, ' ')
		}
	}
	for _, bc := range []struct{ name, text string }{
		{"prose", prose}, {"unknown words", string(words)}, {"one word", string(word)},
		{"one letter", strings.Repeat("a", len(prose))},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(int64(len(bc.text)))
			for b.Loop() {
				tok.Encode(bc.text, true)
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	tok := load(b, testkit.Model())
	ids := tok.Encode(strings.Repeat("In the beginning God created the heaven and the earth. ", 20), true)
	for b.Loop() {
		s := tok.NewStream(true)
		for _, id := range ids {
			s.Push(id)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/token")
}
