package simulated

import (
	"slices"

	"troupe/engine"
	"troupe/modelfile"
	"troupe/modelfile/tokenizer"
)

// MeanOutput is the mean length of an output that nothing else ends.
const MeanOutput = 256

// words are the tokens that make up the text of a simulated model.
type words struct {
	ids []uint32 // of words; if the tokenizer has none, of all tokens that are not special
	eos []uint32
}

// readWords reads the words of a model's tokenizer: a space and three or more lower-case letters.
func readWords(roots modelfile.Roots, path string, info engine.ModelInfo) (words, error) {
	t, err := tokenizer.LoadFor(roots, path, info.Vocab)
	if err != nil {
		return words{}, err
	}
	w, others := words{eos: info.EOS}, []uint32(nil)
	for id := range uint32(min(t.Vocab(), info.Vocab)) {
		switch {
		case t.Special(id) || slices.Contains(info.EOS, id):
		case isWord(t.Bytes(id)):
			w.ids = append(w.ids, id)
		default:
			others = append(others, id)
		}
	}
	if len(w.ids) == 0 {
		w.ids = others
	}
	if len(w.ids) == 0 {
		w.ids = []uint32{0}
	}
	return w, nil
}

func isWord(b []byte) bool {
	if len(b) < 4 || b[0] != ' ' {
		return false
	}
	return !slices.ContainsFunc(b[1:], func(c byte) bool { return c < 'a' || c > 'z' })
}

// next returns the token that follows a sequence.
func (w words) next(s engine.Sequence) uint32 {
	position := uint64(s.Position + len(s.Tokens))
	h := mix(position<<32 | uint64(s.Tokens[len(s.Tokens)-1]))
	if s.Sampling.Temperature > 0 {
		h = mix(h ^ s.Sampling.Seed)
	}
	from := w.ids
	if s.Sampling.Allowed != nil {
		from = s.Sampling.Allowed
	} else if len(w.eos) > 0 && mix(h)%MeanOutput == 0 && !slices.Contains(s.Sampling.Banned, w.eos[0]) {
		return w.eos[0]
	}
	for i := range uint64(len(from)) { // the first that is not banned, from a random one on
		if id := from[(h+i)%uint64(len(from))]; !slices.Contains(s.Sampling.Banned, id) {
			return id
		}
	}
	return from[h%uint64(len(from))]
}

// mix spreads every bit of h over all bits (the finalizer of splitmix64).
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
