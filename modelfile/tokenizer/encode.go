package tokenizer

import (
	"context"
	"slices"
)

// Encode returns the ids of a text. Added tokens written in the text are recognised. With special
// set, it adds the tokens that the model expects around a text, usually the one that begins a
// sequence.
func (t *Tokenizer) Encode(text string, special bool) []uint32 {
	return t.encode(text, special, false)
}

// EncodeLiteral is Encode, but treats special tokens written in the text as ordinary text.
func (t *Tokenizer) EncodeLiteral(text string, special bool) []uint32 {
	return t.encode(text, special, true)
}

// EncodeContext is like Encode, but returns the context's error soon after ctx ends.
func (t *Tokenizer) EncodeContext(ctx context.Context, text string, special bool) ([]uint32, error) {
	e := &encoding{t: t, done: ctx.Done()}
	if ids := e.encode(text, special); !e.stopped {
		return ids, nil
	}
	return nil, ctx.Err()
}

// Last returns no more than the last n of a text's tokens, as Encode gave them. What was put around the
// text with special set stays where there is room for it.
func (t *Tokenizer) Last(ids []uint32, special bool, n int) []uint32 {
	if len(ids) <= n {
		return ids
	}
	if !special || len(t.prefix)+len(t.suffix) >= n {
		return ids[len(ids)-n:]
	}
	return append(slices.Clone(t.prefix), ids[len(ids)-n+len(t.prefix):]...)
}

func (t *Tokenizer) encode(text string, special, literal bool) []uint32 {
	return (&encoding{t: t, literal: literal}).encode(text, special)
}

// encoding is the state of one call of Encode.
type encoding struct {
	t       *Tokenizer
	literal bool
	ids     []uint32
	done    <-chan struct{} // closed to cancel the encoding; nil if it cannot be cancelled
	work    int             // since the last check of done
	stopped bool
}

// checkEvery is the number of words or merges between checks of done.
const checkEvery = 1 << 12

// goesOn counts work and reports whether the encoding should continue.
func (e *encoding) goesOn() bool {
	if e.work++; e.work < checkEvery || e.stopped {
		return !e.stopped
	}
	e.work = 0
	select {
	case <-e.done:
		e.stopped = true
	default:
	}
	return !e.stopped
}

func (e *encoding) encode(text string, special bool) []uint32 {
	t := e.t
	e.ids = make([]uint32, 0, len(text)/4+len(t.prefix)+len(t.suffix))
	if special {
		e.ids = append(e.ids, t.prefix...)
	}
	e.cut(&t.added, text, func(piece string, start bool) {
		e.cut(&t.addedNormalized, t.normalized(piece), func(piece string, first bool) { e.text(piece, start && first) })
	})
	if special {
		e.ids = append(e.ids, t.suffix...)
	}
	return e.ids
}

// cut appends the ids of a text's added tokens and calls encode for the text between them.
func (e *encoding) cut(s *addedSet, text string, encode func(piece string, start bool)) {
	if s.root.next == nil && text != "" {
		encode(text, true)
		return
	}
	for at := 0; at < len(text) && e.goesOn(); {
		start, end, token := s.find(text, at, e.literal)
		if start > at {
			encode(text[at:start], at == 0)
		}
		if token != nil {
			e.ids = append(e.ids, token.id)
		}
		at = end
	}
}

func (t *Tokenizer) normalized(text string) string {
	for _, f := range t.normalize {
		text = f(text)
	}
	return text
}

// text appends the ids of a text without added tokens. start is set at the beginning of the whole
// text.
func (e *encoding) text(text string, start bool) {
	e.t.split(text, start, func(word string) bool {
		if e.goesOn() {
			e.word(word)
		}
		return !e.stopped
	})
}

// split splits a text into words, which are merged separately, until yield returns false.
func (t *Tokenizer) split(text string, start bool, yield func(word string) bool) {
	splitBy(t.splitters, text, start, yield)
}

func splitBy(splitters []splitter, text string, start bool, yield func(string) bool) bool {
	switch len(splitters) {
	case 0:
		return yield(text)
	case 1:
		return splitters[0](text, start, yield)
	}
	return splitters[0](text, start, func(word string) bool {
		first := start
		start = false
		return splitBy(splitters[1:], word, first, yield)
	})
}
