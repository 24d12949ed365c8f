package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxFile  = 256 << 20
	maxVocab = 1 << 22
)

// Tokenizer is safe for concurrent use.
type Tokenizer struct {
	model      bpe
	normalize  []func(string) string
	split      func(text string, first bool) []string // into words that are merged each for itself
	byteLevel  bool                                   // words are bytes, each written as a character
	added      []addedToken                           // longest first
	addedByID  map[uint32]addedToken
	prefix     []uint32 // put before a text: bos
	suffix     []uint32
	tokens     []string // id -> as in the vocabulary
	decodeWith decoder
}

type addedToken struct {
	id             uint32
	content        string
	lstrip, rstrip bool
	special        bool
}

// Load reads a tokenizer.json, or that of a model folder.
func Load(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
		info, err = os.Stat(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no tokenizer.json; it belongs into the model's folder: %w", path, errors.Unwrap(err))
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: %d bytes are too large for a tokenizer", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse reads the content of a tokenizer.json.
func Parse(b []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	t := &Tokenizer{addedByID: make(map[uint32]addedToken)}
	for _, step := range []func(*file) error{
		t.readModel, t.readAdded, t.readNormalizer, t.readPreTokenizer, t.readPostProcessor, t.readDecoder,
	} {
		if err := step(&f); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Tokenizer) readModel(f *file) error {
	m := f.Model
	switch {
	case m.Type != "BPE" && (m.Type != "" || len(m.Merges) == 0):
		return fmt.Errorf("model type %q is not supported; BPE is", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("model.dropout is for training; set it to null")
	case m.Prefix != nil && *m.Prefix != "" || m.Suffix != nil && *m.Suffix != "":
		return errors.New("continuing_subword_prefix and end_of_word_suffix are not supported")
	}
	t.model = bpe{ids: make(map[string]uint32, len(m.Vocab)), byteFallback: m.ByteFallback, fuseUnk: m.FuseUnk, ignoreMerges: m.IgnoreMerges}
	for token, id := range m.Vocab {
		if err := t.place(token, id); err != nil {
			return err
		}
		t.model.ids[token] = uint32(id)
	}
	if m.UnkToken != nil {
		id, ok := t.model.ids[*m.UnkToken]
		if !ok {
			return fmt.Errorf("unk_token %q is not in the vocabulary", *m.UnkToken)
		}
		t.model.unk, t.model.hasUnk = id, true
	}
	return t.model.rank(m.Merges)
}

// place writes a token into the table by id.
func (t *Tokenizer) place(token string, id int) error {
	if id < 0 || id >= maxVocab {
		return fmt.Errorf("token %q has id %d; ids are from 0 to %d", token, id, maxVocab-1)
	}
	for len(t.tokens) <= id {
		t.tokens = append(t.tokens, make([]string, max(1, id+1-len(t.tokens)))...)
	}
	t.tokens[id] = token
	return nil
}

func (t *Tokenizer) readAdded(f *file) error {
	for _, a := range f.AddedTokens {
		if a.SingleWord {
			return fmt.Errorf("added token %q: single_word is not supported", a.Content)
		}
		if a.Content == "" {
			return fmt.Errorf("added token %d is empty", a.ID)
		}
		if err := t.place(a.Content, a.ID); err != nil {
			return err
		}
		token := addedToken{uint32(a.ID), a.Content, a.LStrip, a.RStrip, a.Special}
		t.added = append(t.added, token)
		t.addedByID[token.id] = token
	}
	slices.SortStableFunc(t.added, func(a, b addedToken) int { return len(b.content) - len(a.content) })
	return nil
}

func (t *Tokenizer) readPostProcessor(f *file) error {
	for _, p := range f.PostProcessor.list() {
		switch p.Type {
		case "ByteLevel":
		case "TemplateProcessing":
			before := true
			for _, s := range p.Single {
				if s.Sequence != nil {
					before = false
				} else if s.SpecialToken != nil {
					ids := p.SpecialTokens[s.SpecialToken.ID].IDs
					if before {
						t.prefix = append(t.prefix, ids...)
					} else {
						t.suffix = append(t.suffix, ids...)
					}
				}
			}
		default:
			return fmt.Errorf("post-processor %q is not supported; ByteLevel and TemplateProcessing are", p.Type)
		}
	}
	return nil
}

// Vocab is how many ids there are: the highest and one.
func (t *Tokenizer) Vocab() int { return len(t.tokens) }

// Fits reports an error where a model with so many tokens has not all of this tokenizer's.
func (t *Tokenizer) Fits(vocab int) error {
	if t.Vocab() > vocab {
		return fmt.Errorf("the tokenizer has %d tokens and the model %d; they are of different models", t.Vocab(), vocab)
	}
	return nil
}

// ID returns the id of a token as the vocabulary writes it.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	for _, a := range t.added {
		if a.content == token {
			return a.id, true
		}
	}
	id, ok := t.model.ids[token]
	return id, ok
}

// Encode returns the ids of a text. Added tokens that are written out in it are recognised. With special set, what the
// model expects around a text is put there: usually the token that begins a sequence.
func (t *Tokenizer) Encode(text string, special bool) []uint32 {
	return t.encode(text, special, t.nextAdded)
}

// EncodeLiteral is Encode, but added tokens that are written out in the text are text like any other.
func (t *Tokenizer) EncodeLiteral(text string, special bool) []uint32 {
	return t.encode(text, special, func(text string) (int, *addedToken) { return len(text), nil })
}

func (t *Tokenizer) encode(text string, special bool, nextAdded func(string) (int, *addedToken)) []uint32 {
	var ids []uint32
	if special {
		ids = append(ids, t.prefix...)
	}
	first := true
	for text != "" {
		at, token := nextAdded(text)
		before := text
		if token != nil {
			before, text = text[:at], text[at+len(token.content):]
			if token.lstrip {
				before = strings.TrimRight(before, " \t\r\n")
			}
			if token.rstrip {
				text = strings.TrimLeft(text, " \t\r\n")
			}
		} else {
			text = ""
		}
		if before != "" {
			ids = t.encodeText(ids, before, first)
		}
		if token != nil {
			ids = append(ids, token.id)
		}
		first = false
	}
	if special {
		ids = append(ids, t.suffix...)
	}
	return ids
}

// nextAdded finds the first added token in the text; of several at one place, the longest.
func (t *Tokenizer) nextAdded(text string) (at int, token *addedToken) {
	at = len(text)
	for i := range t.added {
		if j := strings.Index(text[:min(len(text), at+len(t.added[i].content)-1)], t.added[i].content); j >= 0 && j < at {
			at, token = j, &t.added[i]
		}
	}
	return at, token
}

func (t *Tokenizer) encodeText(ids []uint32, text string, first bool) []uint32 {
	for _, f := range t.normalize {
		text = f(text)
	}
	for _, word := range t.split(text, first) {
		if t.byteLevel {
			word = bytesToText(word)
		}
		ids = t.model.encode(ids, word)
	}
	return ids
}

// Token returns the text of one token; bytes that are no text are U+FFFD.
func (t *Tokenizer) Token(id uint32) string {
	return strings.ToValidUTF8(string(t.Bytes(id)), string(utf8.RuneError))
}
