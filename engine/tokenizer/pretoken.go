package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const metaspace = "▁"

func (t *Tokenizer) readNormalizer(f *file) error {
	for _, p := range f.Normalizer.list() {
		switch {
		case p.Type == "NFC":
			t.normalize = append(t.normalize, norm.NFC.String)
		case p.Type == "NFKC":
			t.normalize = append(t.normalize, norm.NFKC.String)
		case p.Type == "Prepend":
			t.normalize = append(t.normalize, func(s string) string { return p.Prepend + s })
		case p.Type == "Replace" && p.Pattern.String != nil:
			t.normalize = append(t.normalize, func(s string) string { return strings.ReplaceAll(s, *p.Pattern.String, p.Content) })
		default:
			return fmt.Errorf("normalizer %q is not supported; NFC, NFKC, Prepend and Replace of a string are", p.Type)
		}
	}
	return nil
}

// The patterns that models are trained with. Go's regexp has no look-ahead, so each is a hand-written scanner.
const (
	patternGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	// patternLlama3 is that of Llama 3 and, with one digit instead of up to three, Qwen2.
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// splitters are the pre-tokenizers that can be combined: a pattern, then ByteLevel; or Metaspace; or none.
func (t *Tokenizer) readPreTokenizer(f *file) error {
	next := func(s string) int { return len(s) } // the whole text is one word
	prefixSpace := false
	var meta *part
	for _, p := range f.PreTokenizer.list() {
		switch p.Type {
		case "ByteLevel":
			t.byteLevel, prefixSpace = true, p.AddPrefixSpace
			if p.UseRegex == nil || *p.UseRegex {
				next = nextGPT2
			}
		case "Split":
			scanner, err := scannerOf(p)
			if err != nil {
				return err
			}
			next = scanner
		case "Metaspace":
			meta = p
		default:
			return fmt.Errorf("pre-tokenizer %q is not supported; ByteLevel, Split and Metaspace are", p.Type)
		}
	}
	if meta != nil {
		if t.byteLevel || meta.Replacement != metaspace {
			return errors.New("this use of the pre-tokenizer Metaspace is not supported")
		}
		t.split = metaspaceSplitter(meta)
		return nil
	}
	t.split = func(text string, _ bool) []string {
		if prefixSpace && !strings.HasPrefix(text, " ") {
			text = " " + text
		}
		var words []string
		for text != "" {
			n := next(text)
			words, text = append(words, text[:n]), text[n:]
		}
		return words
	}
	return nil
}

func scannerOf(p *part) (func(string) int, error) {
	if p.Pattern.Regex == nil || p.Behavior != "Isolated" || p.Invert {
		return nil, fmt.Errorf("pre-tokenizer Split is supported with an isolated regular expression only")
	}
	switch *p.Pattern.Regex {
	case patternGPT2:
		return nextGPT2, nil
	case patternLlama3:
		return func(s string) int { return nextLlama3(s, 3) }, nil
	case patternQwen2:
		return func(s string) int { return nextLlama3(s, 1) }, nil
	}
	return nil, fmt.Errorf("pre-tokenizer pattern %q is not known; those of GPT-2, Llama 3 and Qwen2 are", *p.Pattern.Regex)
}

// metaspaceSplitter writes spaces as ▁, puts one before the text, and splits before each where the file says so.
func metaspaceSplitter(p *part) func(string, bool) []string {
	always := p.PrependScheme == "always" || p.PrependScheme == "" && p.AddPrefixSpace
	split := p.Split == nil || *p.Split
	return func(text string, first bool) []string {
		text = strings.ReplaceAll(text, " ", metaspace)
		if (always || p.PrependScheme == "first" && first) && !strings.HasPrefix(text, metaspace) {
			text = metaspace + text
		}
		if !split {
			return []string{text}
		}
		var words []string
		for text != "" {
			n := strings.Index(text[1:], metaspace) + 1
			if n == 0 {
				n = len(text)
			}
			words, text = append(words, text[:n]), text[n:]
		}
		return words
	}
}

// nextGPT2 is the length of the first match of patternGPT2.
func nextGPT2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	for _, class := range []func(rune) bool{unicode.IsLetter, unicode.IsNumber, isOther} {
		if n := run(s[at:], class, len(s)); n > 0 {
			return at + n
		}
	}
	return space(s)
}

// nextLlama3 is the length of the first match of patternLlama3 with so many digits at once.
func nextLlama3(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	if n := run(s, unicode.IsLetter, len(s)); n > 0 {
		return n
	}
	r, size := utf8.DecodeRuneInString(s)
	if r != '\r' && r != '\n' && !unicode.IsNumber(r) {
		if n := run(s[size:], unicode.IsLetter, len(s)); n > 0 {
			return size + n
		}
	}
	if n := run(s, unicode.IsNumber, digits); n > 0 {
		return n
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	if n := run(s[at:], isOther, len(s)); n > 0 {
		at += n
		return at + run(s[at:], isNewline, len(s))
	}
	blank := s[:run(s, unicode.IsSpace, len(s))]
	if n := strings.LastIndexAny(blank, "\r\n"); n >= 0 {
		return n + 1
	}
	return space(s)
}

func isOther(r rune) bool   { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }
func isNewline(r rune) bool { return r == '\r' || r == '\n' }

// run is the length of the longest head of at most n characters of a class.
func run(s string, class func(rune) bool, n int) int {
	at := 0
	for at < len(s) && n > 0 {
		r, size := utf8.DecodeRuneInString(s[at:])
		if !class(r) {
			break
		}
		at += size
		n--
	}
	return at
}

// space matches \s+(?!\S)|\s+ : blanks, the last of which is left to the word that follows.
func space(s string) int {
	n := run(s, unicode.IsSpace, len(s))
	if n == 0 { // a byte that is no text, and in no class
		_, size := utf8.DecodeRuneInString(s)
		return size
	}
	_, last := utf8.DecodeLastRuneInString(s[:n])
	if n == len(s) || n == last {
		return n
	}
	return n - last
}

// contraction is the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of s.
func contraction(s string, anyCase bool) int {
	if s[0] != '\'' {
		return 0
	}
	for _, c := range []string{"s", "t", "re", "ve", "m", "ll", "d"} {
		if len(s) > len(c) && (s[1:1+len(c)] == c || anyCase && strings.EqualFold(s[1:1+len(c)], c)) {
			return 1 + len(c)
		}
	}
	return 0
}
