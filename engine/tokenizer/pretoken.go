package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

const metaspace = "▁"

// splitter yields the words of a text, which are merged each for itself, until yield returns false.
// It returns what yield did last. start is set for what begins the whole text.
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

// wordwise reports whether no token goes on after a word: then a text may be merged word by word, and short words are cached.
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

// nextMetaspace is the length of the first word: metaspaces, then what is none.
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
	return nil, errors.New("a type of pre_tokenizer is not supported; ByteLevel, Split, Digits and Metaspace are")
}

// scanning splits where next says that the first word of a text ends.
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
	// A pattern that matches everywhere splits the same way whether its matches or what is between them is removed.
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
	return nil, errors.New("a pattern of pre_tokenizer is not known; those of GPT-2, Llama 3 and Qwen2 are")
}

// nextDigits is the length of the first number, or of what is before it.
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

// prepends says whether a metaspace belongs before a text, or only before what begins the whole text.
func (p *part) prepends() (always, first bool) {
	switch {
	case p.PrependScheme == "never" || p.PrependScheme == "" && p.AddPrefixSpace != nil && !*p.AddPrefixSpace:
		return false, false
	case p.PrependScheme == "first":
		return false, true
	}
	return true, false
}

// metaspaces writes spaces as ▁, puts one before the text, and splits before each where the file says so.
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
