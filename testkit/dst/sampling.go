package dst

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"troupe/core/sample"
)

const (
	// firstText is the first token that is not special in the tokenizer of the models.
	firstText = 3
	eos       = 1
	// eosOdds is the number of sampled tokens of which one ends its sequence. Greedy sampling never
	// chooses eos.
	eosOdds = 64
)

// draw returns the token that follows a sequence. greedy is the token that greedy sampling chooses.
// With a temperature, the token depends on the seed too.
func draw(greedy uint32, p sample.Params) sample.Token {
	t := sample.Token{ID: greedy}
	if p.Temperature > 0 {
		var b [12]byte
		binary.LittleEndian.PutUint32(b[:], greedy)
		binary.LittleEndian.PutUint64(b[4:], p.Seed)
		h := hashOf(b[:])
		t.ID = firstText + binary.LittleEndian.Uint32(h[:])%(vocab-firstText)
		if h[5]%eosOdds == 0 {
			t.ID = eos
		}
	}
	for slices.Contains(p.Banned, t.ID) {
		t.ID = firstText + (t.ID+1)%(vocab-firstText)
	}
	if p.Logprobs {
		t.Logprob = logprob(greedy, t.ID)
		for i := range p.TopLogprobs {
			id := firstText + (t.ID+uint32(i))%(vocab-firstText)
			t.Top = append(t.Top, sample.Logprob{ID: id, Logprob: logprob(greedy, id)})
		}
	}
	return t
}

// logprob returns the log-probability of a token where greedy sampling chooses the given one.
func logprob(greedy, token uint32) float32 { return -float32((greedy*31+token)%4096) / 256 }

// limits bound an output.
type limits struct {
	least, most int
	stops       []uint32 // tokens that end the output after the least number; they are not part of it
}

// generate returns what a correct replica generates for a prompt, and whether it stopped because of a token in
// the limits. with is the revision of the model, followed by the hash of the adapter.
func generate(prompt []uint32, with string, p sample.Params, l limits) (output []sample.Token, stopped bool) {
	all := sha256.New()
	var last [layers]state
	for _, t := range prompt {
		last = next(last, t, with)
		addState(all, last)
	}
	for len(output) < l.most {
		if p.Banned = nil; len(output) < l.least {
			p.Banned = l.stops
		}
		t := draw(chosen(all), p)
		if slices.Contains(l.stops, t.ID) {
			return output, true
		}
		output = append(output, t)
		last = next(last, t.ID, with)
		addState(all, last)
	}
	return output, false
}
