package dst

import (
	"math/rand/v2"
	"strings"
	"testing"

	"troupe/core/sample"
)

// TestTextsAreExact checks that prompts survive tokenizing, and that the text of an output is that of
// its tokens.
func TestTextsAreExact(t *testing.T) {
	g := &requests{rng: rand.New(rand.NewPCG(1, 1))}
	for range 200 {
		text := strings.Join(g.words(), " ")
		tokens := textOf().Encode(text, true)
		if got := textOf().Decode(tokens, true); got != text {
			t.Errorf("%q became %q", text, got)
		}
		e := expectation{prompt: tokens, sampling: sample.Params{Temperature: 1, Seed: g.rng.Uint64()},
			limits: limits{most: 40, stops: []uint32{eos}}}
		w := e.want()
		var ids []uint32
		for _, token := range w.tokens {
			ids = append(ids, token.ID)
		}
		if got := textOf().Decode(ids, true); got != w.text {
			t.Errorf("tokens %v are %q, the expected text is %q", ids, got, w.text)
		}
		wantFinish, extra := "length", 0
		if len(ids) < e.limits.most {
			wantFinish, extra = "stop", 1
		}
		if w.finish != wantFinish || w.completion != len(ids)+extra {
			t.Errorf("finish %s, %d tokens; want %s, %d", w.finish, w.completion, wantFinish, len(ids)+extra)
		}
	}
}

// TestStopStringCutsText checks the expected text and tokens with a stop string.
func TestStopStringCutsText(t *testing.T) {
	e := expectation{prompt: []uint32{5, 6, 7}, limits: limits{most: 30}, echoed: "echo "}
	full := e.want()
	text := strings.TrimPrefix(full.text, e.echoed)
	e.stop = text[len(text)/2 : len(text)/2+2]
	at := strings.Index(text, e.stop)
	if got := e.want(); got.text != "echo "+text[:at] || got.finish != "stop" || got.completion >= full.completion ||
		len(got.tokens) != got.completion {
		t.Errorf("%+v, want the text before %q in %q", got, e.stop, full.text)
	}
	e.includeStop = true
	if got := e.want(); got.text != "echo "+text[:at+2] {
		t.Errorf("text with the stop string: %q", got.text)
	}
}

// TestSeedsAndOutputs checks that only sampling with a temperature depends on the seed, and that
// tokens are not chosen while they are banned.
func TestSeedsAndOutputs(t *testing.T) {
	run := func(temperature float32, seed uint64, l limits) (ids []uint32) {
		out, _ := generate([]uint32{9, 8, 7}, "", sample.Params{Temperature: temperature, Seed: seed}, l)
		for _, token := range out {
			ids = append(ids, token.ID)
		}
		return ids
	}
	l := limits{most: 20}
	greedy, sampled := run(0, 1, l), run(1, 1, l)
	if again, other := run(0, 2, l), run(1, 2, l); greedy[0] != again[0] || sampled[0] == other[0] {
		t.Errorf("greedy %d and %d, sampled %d and %d", greedy[0], again[0], sampled[0], other[0])
	}
	if got := run(0, 0, limits{most: 20, stops: greedy[:1]}); len(got) != 0 {
		t.Errorf("%v after a stop token", got)
	}
	if got := run(0, 0, limits{most: 20, least: 1, stops: greedy[:1]}); len(got) == 0 || got[0] == greedy[0] {
		t.Errorf("%v, want a first token that does not stop", got)
	}
}
