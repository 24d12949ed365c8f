package tokenizer

import (
	"encoding/json"
	"errors"
)

// file is the JSON form of tokenizer.json.
type file struct {
	AddedTokens []struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		Normalized bool   `json:"normalized"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Special    bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer    *part `json:"normalizer"`
	PreTokenizer  *part `json:"pre_tokenizer"`
	PostProcessor *part `json:"post_processor"`
	Decoder       *part `json:"decoder"`
	Model         struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"` // a map from token to id, except in types other than BPE
		Merges       []merge         `json:"merges"`
		UnkToken     *string         `json:"unk_token"`
		FuseUnk      bool            `json:"fuse_unk"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
		Dropout      *float64        `json:"dropout"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		Suffix       *string         `json:"end_of_word_suffix"`
	} `json:"model"`
}

// part is a normalizer, pre-tokenizer, post-processor or decoder, with the fields of all known
// types.
type part struct {
	Type string `json:"type"`
	// Fields of Sequence, for each kind.
	Normalizers   []*part `json:"normalizers"`
	PreTokenizers []*part `json:"pretokenizers"`
	Processors    []*part `json:"processors"`
	Decoders      []*part `json:"decoders"`
	// Fields of ByteLevel and Metaspace.
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`
	// Field of Digits.
	IndividualDigits bool `json:"individual_digits"`
	// Fields of Prepend, Replace, Split and Strip.
	Prepend string `json:"prepend"`
	Pattern struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Content  string `json:"content"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`
	Start    int    `json:"start"`
	Stop     int    `json:"stop"`
	// Fields of Metaspace.
	Replacement   string `json:"replacement"`
	PrependScheme string `json:"prepend_scheme"`
	Split         *bool  `json:"split"`
	// Fields of TemplateProcessing.
	Single []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
		Sequence *struct {
			ID string `json:"id"`
		} `json:"Sequence"`
	} `json:"single"`
	SpecialTokens map[string]struct {
		IDs []uint32 `json:"ids"`
	} `json:"special_tokens"`
}

// list returns the part itself, or the flattened parts of a Sequence.
func (p *part) list() []*part {
	if p == nil {
		return nil
	}
	if p.Type != "Sequence" {
		return []*part{p}
	}
	var all []*part
	for _, group := range [][]*part{p.Normalizers, p.PreTokenizers, p.Processors, p.Decoders} {
		for _, inner := range group {
			all = append(all, inner.list()...)
		}
	}
	return all
}

// merge is a pair of tokens: "a b", or ["a", "b"] in newer files.
type merge [2]string

func (m *merge) UnmarshalJSON(b []byte) error {
	var pair [2]string
	if json.Unmarshal(b, &pair) == nil {
		*m = pair
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	for i := 1; i < len(text)-1; i++ {
		if text[i] == ' ' {
			*m = merge{text[:i], text[i+1:]}
			return nil
		}
	}
	return errors.New("a merge is not a pair")
}
