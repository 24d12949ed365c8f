package tokenizer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"troupe/modelfile"
)

const maxVocab = 1 << 22

// Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	model     bpe
	normalize []func(string) string
	splitters []splitter
	// Added tokens are matched in the original text or in the normalized one.
	added, addedNormalized addedSet
	addedByID              map[uint32]*addedToken
	prefix                 []uint32 // added before a text: bos
	suffix                 []uint32
	tokens                 []string // id → token as in the vocabulary
	longest                int      // longest text that can become one token, in bytes; 0 means no bound
	shrink                 int      // factor by which normalization may shorten a text; 0 means no bound
	strips                 bool     // an added token can include adjacent blanks
	decoder                decoder
}

// Load reads a tokenizer.json, given its path or that of a model folder.
func Load(roots modelfile.Roots, path string) (*Tokenizer, error) {
	if filepath.Ext(path) != ".json" {
		path = filepath.Join(path, "tokenizer.json")
	}
	b, err := roots.Read(path, modelfile.Tokenizer)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: no tokenizer.json; add it to the model's folder: %w", path, errors.Unwrap(err))
	}
	if err != nil {
		return nil, err
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// LoadFor is like Load, and rejects a tokenizer with more tokens than the model's vocabulary.
func LoadFor(roots modelfile.Roots, path string, vocab int) (*Tokenizer, error) {
	t, err := Load(roots, path)
	if err != nil {
		return nil, err
	}
	if err := t.Fits(vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse reads the content of a tokenizer.json.
func Parse(b []byte) (*Tokenizer, error) {
	var f file
	if err := modelfile.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	t := &Tokenizer{addedByID: make(map[uint32]*addedToken)}
	for _, step := range []func(*file) error{
		t.readModel, t.readNormalizer, t.readPreTokenizer, t.readAdded, t.readPostProcessor, t.readDecoder,
	} {
		if err := step(&f); err != nil {
			return nil, err
		}
	}
	t.measure()
	return t, nil
}

func (t *Tokenizer) readModel(f *file) error {
	m := f.Model
	switch {
	case m.Type != "BPE" && (m.Type != "" || len(m.Merges) == 0):
		return fmt.Errorf("unsupported model.type; supported: BPE")
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("model.dropout is for training only; set it to null")
	case m.Prefix != nil && *m.Prefix != "" || m.Suffix != nil && *m.Suffix != "":
		return errors.New("continuing_subword_prefix and end_of_word_suffix are not supported")
	}
	var vocab map[string]int
	if err := modelfile.Unmarshal(m.Vocab, &vocab); len(m.Vocab) > 0 && err != nil {
		return fmt.Errorf("model.vocab: %w", err)
	}
	if len(vocab) == 0 {
		return errors.New("the vocabulary is empty")
	}
	t.model = bpe{ids: make(map[string]uint32, len(vocab)), byteFallback: m.ByteFallback, fuseUnk: m.FuseUnk,
		ignoreMerges: m.IgnoreMerges}
	for token, id := range vocab {
		if id >= 0 && id < len(t.tokens) && t.tokens[id] != "" {
			return fmt.Errorf("two tokens have the same id %d", id)
		}
		if err := t.place(token, id); err != nil {
			return err
		}
		t.model.ids[token] = uint32(id)
	}
	if m.UnkToken != nil {
		id, ok := t.model.ids[*m.UnkToken]
		if !ok {
			return fmt.Errorf("unk_token is not in the vocabulary")
		}
		t.model.unk, t.model.hasUnk = id, true
	}
	return t.model.rank(m.Merges)
}

// place stores a token in the table by id.
func (t *Tokenizer) place(token string, id int) error {
	if id < 0 || id >= maxVocab {
		return fmt.Errorf("token id %d is out of range 0 to %d", id, maxVocab-1)
	}
	if missing := id + 1 - len(t.tokens); missing > 0 {
		t.tokens = append(t.tokens, make([]string, missing)...)
	}
	t.tokens[id] = token
	return nil
}

func (t *Tokenizer) readPostProcessor(f *file) error {
	for _, p := range f.PostProcessor.list() {
		switch p.Type {
		case "ByteLevel": // it only trims offsets, which are not used here
		case "TemplateProcessing":
			if err := t.readTemplate(p); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unsupported type of post_processor; supported: ByteLevel and TemplateProcessing")
		}
	}
	return nil
}

func (t *Tokenizer) readTemplate(p *part) error {
	around := &t.prefix
	for _, piece := range p.Single {
		if piece.SpecialToken == nil {
			around = &t.suffix
			continue
		}
		name := piece.SpecialToken.ID
		ids := p.SpecialTokens[name].IDs
		if len(ids) == 0 {
			return fmt.Errorf("post_processor: a special token has no ids")
		}
		for _, id := range ids {
			if int(id) >= t.Vocab() {
				return fmt.Errorf(
					"post_processor: special token id %d is out of range; the vocabulary has %d tokens",
					id,
					t.Vocab(),
				)
			}
		}
		*around = append(*around, ids...)
	}
	return nil
}

// Vocab returns the size of the vocabulary: the highest id plus one.
func (t *Tokenizer) Vocab() int { return len(t.tokens) }

// Fits returns an error if the tokenizer has more tokens than a model's vocabulary.
func (t *Tokenizer) Fits(vocab int) error {
	if t.Vocab() > vocab {
		return fmt.Errorf(
			"the tokenizer has %d tokens but the model %d; use the model's own tokenizer",
			t.Vocab(),
			vocab,
		)
	}
	return nil
}

// ID returns the id of a token as written in the vocabulary.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	for _, set := range []*addedSet{&t.added, &t.addedNormalized} {
		if id, ok := set.ids[token]; ok {
			return id, true
		}
	}
	id, ok := t.model.ids[token]
	return id, ok
}

// Special reports whether a token is special: it has no text and marks the start, end or parts of a
// sequence.
func (t *Tokenizer) Special(id uint32) bool {
	a, ok := t.addedByID[id]
	return ok && a.special
}

// Token returns the text of one token; invalid bytes become U+FFFD.
func (t *Tokenizer) Token(id uint32) string {
	return strings.ToValidUTF8(string(t.Bytes(id)), string(utf8.RuneError))
}
