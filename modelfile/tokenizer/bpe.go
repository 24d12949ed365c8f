package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode/utf8"
)

// bpe merges characters into tokens. Sennrich et al., "Neural Machine Translation of Rare Words
// with Subword Units", 2016.
type bpe struct {
	ids          map[string]uint32
	merges       map[pair]mergeRule
	byteLevel    bool // a word's characters are its bytes, written in GPT-2's alphabet in the vocabulary
	byteIDs      [256]uint32
	byteFallback bool // characters not in the vocabulary become tokens <0xNN>
	fuseUnk      bool
	ignoreMerges bool // a word that is itself a token is not merged
	hasUnk       bool
	unk          uint32

	mu    sync.RWMutex
	cache map[string][]uint32 // short words → tokens; limited to cacheWords
}

type pair struct{ left, right uint32 }

// mergeRule is the token that a pair becomes and the rank of the merge.
type mergeRule struct{ rank, id uint32 }

const (
	cacheWords = 1 << 14
	cacheBytes = 32 // longest word that is cached
	noID       = math.MaxUint32
)

func (m *bpe) rank(merges []merge) error {
	m.cache = make(map[string][]uint32)
	m.merges = make(map[pair]mergeRule, len(merges))
	for rank, parts := range merges {
		a, okA := m.ids[parts[0]]
		b, okB := m.ids[parts[1]]
		id, ok := m.ids[parts[0]+parts[1]]
		if !okA || !okB || !ok {
			return errors.New("model.merges has tokens that are not in the vocabulary")
		}
		m.merges[pair{a, b}] = mergeRule{uint32(rank), id}
	}
	return nil
}

// readBytes makes the vocabulary byte-level.
func (m *bpe) readBytes() {
	m.byteLevel = true
	for b := range m.byteIDs {
		m.byteIDs[b] = noID
		if id, ok := m.ids[string(byteToRune[b])]; ok {
			m.byteIDs[b] = id
		}
	}
}

// word appends the tokens of a word.
func (e *encoding) word(word string) {
	m := &e.t.model
	if len(word) > cacheBytes {
		e.ids = e.tokens(e.ids, word)
		return
	}
	m.mu.RLock()
	known, ok := m.cache[word]
	m.mu.RUnlock()
	if !ok {
		known = (&encoding{t: e.t}).tokens(nil, word) // has no context, since a cached result must be complete
		m.mu.Lock()
		if len(m.cache) >= cacheWords {
			clear(m.cache)
		}
		m.cache[strings.Clone(word)] = known // a substring would keep the whole text in memory
		m.mu.Unlock()
	}
	e.ids = append(e.ids, known...)
}

func (e *encoding) tokens(ids []uint32, word string) []uint32 {
	m := &e.t.model
	if m.ignoreMerges {
		written := word
		if m.byteLevel {
			written = bytesToText(word)
		}
		if id, ok := m.ids[written]; ok {
			return append(ids, id)
		}
	}
	symbols := m.symbols(word)
	e.merge(symbols)
	for i := 0; i >= 0 && i < len(symbols); i = int(symbols[i].next) {
		ids = append(ids, symbols[i].id)
	}
	return ids
}

// symbols returns the characters of a word as tokens.
func (m *bpe) symbols(word string) []symbol {
	all := make([]symbol, 0, len(word))
	unknown := false // the previous character was
	for len(word) > 0 {
		size, id := 1, uint32(noID)
		if m.byteLevel {
			id = m.byteIDs[word[0]]
		} else {
			_, size = utf8.DecodeRuneInString(word)
			id = m.id(word[:size])
		}
		char := word[:size]
		word = word[size:]
		if id != noID {
			all, unknown = link(all, id), false
		} else if bytes, ok := m.bytes(char); ok {
			for _, b := range bytes {
				all = link(all, b)
			}
			unknown = false
		} else {
			if m.hasUnk && !(unknown && m.fuseUnk) {
				all = link(all, m.unk)
			}
			unknown = true
		}
	}
	return all
}

func (m *bpe) id(char string) uint32 {
	if id, ok := m.ids[char]; ok {
		return id
	}
	return noID
}

// bytes returns a character as the tokens of its bytes.
func (m *bpe) bytes(char string) ([]uint32, bool) {
	if !m.byteFallback {
		return nil, false
	}
	ids := make([]uint32, len(char))
	for i := range len(char) {
		id, ok := m.ids[fmt.Sprintf("<0x%02X>", char[i])]
		if !ok {
			return nil, false
		}
		ids[i] = id
	}
	return ids, true
}
