package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

const metaspace = "▁"

// splitter yields the words of a text, which are merged separately, until yield returns false. It
// returns the last result of yield. start is set at the beginning of the whole text.
type splitter func(text string, start bool, yield func(word string) bool) bool

func (t *Tokenizer) readPreTokenizer(f *file) error {
	for _, p := range f.PreTokenizer.list() {
		if t.model.byteLevel {
			return errors.New("a pre_tokenizer after ByteLevel is not supported")
		}
		split, err := t.splitter(p)
		if err != nil {
			return err
		}
		t.splitters = append(t.splitters, split)
	}
	if t.model.wordwise() {
		t.splitters = append(t.splitters, scanning(nextMetaspace, false))
	}
	return nil
}

// wordwise reports whether no token continues after a word. Then a text can be merged word by word,
// and short words are cached.
func (m *bpe) wordwise() bool {
	if _, ok := m.ids[metaspace]; !ok || m.byteLevel || m.ignoreMerges {
		return false
	}
	for token := range m.ids {
		if nextMetaspace(token) < len(token) {
			return false
		}
	}
	return true
}

// nextMetaspace returns the length of the first word: metaspaces, then other characters.
func nextMetaspace(s string) int {
	rest := strings.TrimLeft(s, metaspace)
	if n := strings.Index(rest, metaspace); n >= 0 {
		return len(s) - len(rest) + n
	}
	return len(s)
}

func (t *Tokenizer) splitter(p *part) (splitter, error) {
	switch p.Type {
	case "ByteLevel":
		t.model.readBytes()
		next := whole
		if p.UseRegex == nil || *p.UseRegex {
			next = nextGPT2
		}
		return scanning(next, p.AddPrefixSpace != nil && *p.AddPrefixSpace), nil
	case "Split":
		next, err := p.pattern()
		return scanning(next, false), err
	case "Digits":
		return scanning(func(s string) int { return nextDigits(s, p.IndividualDigits) }, false), nil
	case "Metaspace":
		if p.Replacement != metaspace {
			return nil, fmt.Errorf("pre-tokenizer Metaspace is supported with %q only", metaspace)
		}
		return p.metaspaces(), nil
	}
	return nil, errors.New("unsupported type of pre_tokenizer; supported: ByteLevel, Split, Digits and Metaspace")
}

// scanning returns a splitter whose words have the lengths that next returns.
func scanning(next func(string) int, prefixSpace bool) splitter {
	return func(text string, _ bool, yield func(string) bool) bool {
		if prefixSpace && !strings.HasPrefix(text, " ") {
			text = " " + text
		}
		for text != "" {
			n := next(text)
			if !yield(text[:n]) {
				return false
			}
			text = text[n:]
		}
		return true
	}
}

func whole(s string) int { return len(s) }

func (p *part) pattern() (func(string) int, error) {
	// If a pattern matches everywhere, removing its matches or the text between them splits in the
	// same way.
	isolated := p.Behavior == "Isolated" && !p.Invert || p.Behavior == "Removed" && p.Invert
	if p.Pattern.Regex == nil || !isolated {
		return nil, errors.New("pre-tokenizer Split is supported with an isolated regular expression only")
	}
	switch *p.Pattern.Regex {
	case patternGPT2:
		return nextGPT2, nil
	case patternLlama3:
		return func(s string) int { return nextLlama3(s, 3) }, nil
	case patternQwen2:
		return func(s string) int { return nextLlama3(s, 1) }, nil
	}
	return nil, errors.New("unknown pattern of pre_tokenizer; supported: those of GPT-2, Llama 3 and Qwen2")
}

// nextDigits returns the length of the first number, or of the text before it.
func nextDigits(s string, individual bool) int {
	most := len(s)
	if individual {
		most = 1
	}
	if n := run(s, unicode.IsNumber, most); n > 0 {
		return n
	}
	return run(s, func(r rune) bool { return !unicode.IsNumber(r) }, len(s))
}

// prepends reports whether a metaspace is put before each text, or only at the beginning of the
// whole text.
func (p *part) prepends() (always, first bool) {
	switch {
	case p.PrependScheme == "never" || p.PrependScheme == "" && p.AddPrefixSpace != nil && !*p.AddPrefixSpace:
		return false, false
	case p.PrependScheme == "first":
		return false, true
	}
	return true, false
}

// metaspaces returns a splitter that writes spaces as ▁, puts one before the text, and splits
// before each ▁ if the file asks for it.
func (p *part) metaspaces() splitter {
	always, first := p.prepends()
	split := p.Split == nil || *p.Split
	return func(text string, start bool, yield func(string) bool) bool {
		text = strings.ReplaceAll(text, " ", metaspace)
		if (always || first && start) && !strings.HasPrefix(text, metaspace) {
			text = metaspace + text
		}
		for text != "" {
			n := strings.Index(text[1:], metaspace) + 1
			if n == 0 || !split {
				n = len(text)
			}
			if !yield(text[:n]) {
				return false
			}
			text = text[n:]
		}
		return true
	}
}
