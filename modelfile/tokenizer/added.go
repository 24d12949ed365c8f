package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is matched as a whole, before the text is split and merged.
type addedToken struct {
	id             uint32
	special        bool
	lstrip, rstrip bool // the match includes adjacent white space
	singleWord     bool // not matched within a word
}

func (t *Tokenizer) readAdded(f *file) error {
	for _, a := range f.AddedTokens {
		if a.Content == "" {
			return fmt.Errorf("added token %d is empty", a.ID)
		}
		if id, ok := t.model.ids[a.Content]; ok { // the reference uses the vocabulary's id too
			a.ID = int(id)
		} else if err := t.place(a.Content, a.ID); err != nil {
			return err
		}
		token := &addedToken{uint32(a.ID), a.Special, a.LStrip, a.RStrip, a.SingleWord}
		t.addedByID[token.id] = token
		if a.Normalized {
			t.addedNormalized.add(a.Content, t.normalized(a.Content), token)
		} else {
			t.added.add(a.Content, a.Content, token)
		}
	}
	return nil
}

// addedSet finds added tokens in a text.
type addedSet struct {
	ids  map[string]uint32
	root trie
}

// trie stores a token at the end of the path of its bytes.
type trie struct {
	token *addedToken
	next  map[byte]*trie
}

// add adds a token, to be found where the searched text contains found.
func (s *addedSet) add(content, found string, token *addedToken) {
	if s.ids == nil {
		s.ids = make(map[string]uint32)
	}
	s.ids[content] = token.id
	if found == "" {
		return
	}
	at := &s.root
	for i := range len(found) {
		if at.next == nil {
			at.next = make(map[byte]*trie)
		}
		if at.next[found[i]] == nil {
			at.next[found[i]] = &trie{}
		}
		at = at.next[found[i]]
	}
	at.token = token
}

// find returns the first added token in text[from:], the longest if several start there.
// text[start:end] is the token with the blanks that belong to it. token is nil if there is none.
// With literal set, special tokens count as ordinary text.
func (s *addedSet) find(text string, from int, literal bool) (start, end int, token *addedToken) {
	for start = from; start < len(text); start++ {
		n, token := s.root.longest(text[start:])
		end = start + n
		if token == nil || literal && token.special || token.singleWord && !alone(text, start, end) {
			continue
		}
		if token.lstrip {
			start = from + len(strings.TrimRightFunc(text[from:start], unicode.IsSpace))
		}
		if token.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		return start, end, token
	}
	return len(text), len(text), nil
}

func (t *trie) longest(text string) (n int, token *addedToken) {
	for i := 0; i < len(text); i++ {
		if t = t.next[text[i]]; t == nil {
			break
		}
		if t.token != nil {
			n, token = i+1, t.token
		}
	}
	return n, token
}

// alone reports whether text[start:end] is not part of a longer word.
func alone(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return !(start > 0 && inWord(before)) && !(end < len(text) && inWord(after))
}

// inWord reports whether regular expressions match r with \w.
func inWord(r rune) bool {
	return unicode.In(
		r,
		unicode.L,
		unicode.M,
		unicode.N,
		unicode.Pc,
		unicode.Other_Alphabetic,
		unicode.Join_Control,
	) &&
		!unicode.Is(unicode.No, r)
}
