package tokenizer

import (
	"encoding/json"
	"errors"
)

// file is tokenizer.json as it is written.
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
		Vocab        json.RawMessage `json:"vocab"` // a map from token to id, but of other types than BPE
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

// part is a normalizer, pre-tokenizer, post-processor or decoder: the fields of all that are known.
type part struct {
	Type string `json:"type"`
	// Sequence, of each kind
	Normalizers   []*part `json:"normalizers"`
	PreTokenizers []*part `json:"pretokenizers"`
	Processors    []*part `json:"processors"`
	Decoders      []*part `json:"decoders"`
	// ByteLevel; Metaspace too
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`
	// Digits
	IndividualDigits bool `json:"individual_digits"`
	// Prepend, Replace, Split, Strip
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
	// Metaspace
	Replacement   string `json:"replacement"`
	PrependScheme string `json:"prepend_scheme"`
	Split         *bool  `json:"split"`
	// TemplateProcessing
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

// list is a part and what it is a Sequence of, flattened.
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
	return errors.New("a merge is no pair")
}
