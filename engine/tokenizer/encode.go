package tokenizer

// Encode returns the ids of a text. Added tokens that are written out in it are recognised. With special set, what the
// model expects around a text is put there: usually the token that begins a sequence.
func (t *Tokenizer) Encode(text string, special bool) []uint32 {
	return t.encode(text, special, false)
}

// EncodeLiteral is Encode, but special tokens that are written out in the text are text like any other.
func (t *Tokenizer) EncodeLiteral(text string, special bool) []uint32 {
	return t.encode(text, special, true)
}

func (t *Tokenizer) encode(text string, special, literal bool) []uint32 {
	ids := make([]uint32, 0, len(text)/4+len(t.prefix)+len(t.suffix))
	if special {
		ids = append(ids, t.prefix...)
	}
	ids = t.added.cut(ids, text, literal, func(ids []uint32, piece string, start bool) []uint32 {
		return t.addedNormalized.cut(ids, t.normalized(piece), literal, func(ids []uint32, piece string, first bool) []uint32 {
			return t.encodeText(ids, piece, start && first)
		})
	})
	if special {
		ids = append(ids, t.suffix...)
	}
	return ids
}

// cut appends the ids of a text's added tokens, and calls encode for the text between them.
func (s *addedSet) cut(ids []uint32, text string, literal bool, encode func(ids []uint32, piece string, start bool) []uint32) []uint32 {
	if s.root.next == nil && text != "" {
		return encode(ids, text, true)
	}
	for at := 0; at < len(text); {
		start, end, token := s.find(text, at, literal)
		if start > at {
			ids = encode(ids, text[at:start], at == 0)
		}
		if token != nil {
			ids = append(ids, token.id)
		}
		at = end
	}
	return ids
}

func (t *Tokenizer) normalized(text string) string {
	for _, f := range t.normalize {
		text = f(text)
	}
	return text
}

// encodeText appends the ids of a text without added tokens. start is set for what begins the whole text.
func (t *Tokenizer) encodeText(ids []uint32, text string, start bool) []uint32 {
	for _, word := range t.split(text, start) {
		ids = t.model.encode(ids, word)
	}
	return ids
}

// split cuts a text into the words that are merged each for itself.
func (t *Tokenizer) split(text string, start bool) []string {
	words := []string{text}
	for _, split := range t.splitters {
		var parts []string
		for i, word := range words {
			parts = split(parts, word, start && i == 0)
		}
		words = parts
	}
	return words
}
