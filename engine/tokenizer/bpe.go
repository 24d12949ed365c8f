package tokenizer

import (
	"container/heap"
	"fmt"
	"sync"
	"unicode/utf8"
)

// bpe merges characters to tokens. Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016.
type bpe struct {
	ids          map[string]uint32
	merges       map[[2]uint32]ranked
	byteFallback bool // characters that are not in the vocabulary are written as tokens <0xNN>
	fuseUnk      bool
	ignoreMerges bool // a word that is a token is not merged
	hasUnk       bool
	unk          uint32

	mu    sync.RWMutex
	cache map[string][]uint32 // short words and their tokens; bounded
}

// ranked is what a pair becomes, and how soon.
type ranked struct {
	rank int
	id   uint32
}

const (
	cacheWords = 1 << 14
	cacheBytes = 32 // longest word that is kept
)

func (m *bpe) rank(merges []merge) error {
	m.cache = make(map[string][]uint32)
	m.merges = make(map[[2]uint32]ranked, len(merges))
	for rank, pair := range merges {
		a, okA := m.ids[pair[0]]
		b, okB := m.ids[pair[1]]
		id, ok := m.ids[pair[0]+pair[1]]
		if !okA || !okB || !ok {
			return fmt.Errorf("merge %q of tokens that are not in the vocabulary", pair)
		}
		if _, twice := m.merges[[2]uint32{a, b}]; !twice {
			m.merges[[2]uint32{a, b}] = ranked{rank, id}
		}
	}
	return nil
}

// encode appends the tokens of a word.
func (m *bpe) encode(ids []uint32, word string) []uint32 {
	if m.ignoreMerges {
		if id, ok := m.ids[word]; ok {
			return append(ids, id)
		}
	}
	if len(word) > cacheBytes {
		return append(ids, m.merge(word)...)
	}
	m.mu.RLock()
	known, ok := m.cache[word]
	m.mu.RUnlock()
	if !ok {
		known = m.merge(word)
		m.mu.Lock()
		if len(m.cache) >= cacheWords {
			clear(m.cache)
		}
		m.cache[word] = known
		m.mu.Unlock()
	}
	return append(ids, known...)
}

// symbol is a token of a word that is being merged, in a doubly linked list.
type symbol struct {
	id         uint32
	prev, next int // -1: none
	gone       bool
}

// candidate is a pair that can be merged.
type candidate struct {
	ranked
	at          int // index of the left symbol
	left, right uint32
}

// queue gives the pair of the lowest rank, then the leftmost.
type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].rank != q[j].rank {
		return q[i].rank < q[j].rank
	}
	return q[i].at < q[j].at
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (m *bpe) merge(word string) []uint32 {
	symbols := m.symbols(word)
	var q queue
	offer := func(at int) {
		if at < 0 || symbols[at].next < 0 {
			return
		}
		left, right := symbols[at].id, symbols[symbols[at].next].id
		if r, ok := m.merges[[2]uint32{left, right}]; ok {
			heap.Push(&q, candidate{r, at, left, right})
		}
	}
	for i := range symbols {
		offer(i)
	}
	for q.Len() > 0 {
		c := heap.Pop(&q).(candidate)
		s := &symbols[c.at]
		if s.gone || s.id != c.left || s.next < 0 || symbols[s.next].id != c.right {
			continue // merged with another meanwhile
		}
		right := &symbols[s.next]
		s.id, right.gone = c.id, true
		s.next = right.next
		if s.next >= 0 {
			symbols[s.next].prev = c.at
		}
		offer(s.prev)
		offer(c.at)
	}
	ids := make([]uint32, 0, len(symbols))
	for i := 0; i >= 0 && i < len(symbols); i = symbols[i].next {
		ids = append(ids, symbols[i].id)
	}
	return ids
}

// symbols are the characters of a word as tokens.
func (m *bpe) symbols(word string) []symbol {
	var all []symbol
	add := func(id uint32) {
		if n := len(all); n > 0 {
			all[n-1].next = n
		}
		all = append(all, symbol{id: id, prev: len(all) - 1, next: -1})
	}
	unknown := false // the last character was
	for len(word) > 0 {
		_, size := utf8.DecodeRuneInString(word)
		char := word[:size]
		word = word[size:]
		if id, ok := m.ids[char]; ok {
			add(id)
			unknown = false
			continue
		}
		if bytes, ok := m.bytes(char); ok {
			for _, id := range bytes {
				add(id)
			}
			unknown = false
		} else if m.hasUnk {
			if !unknown || !m.fuseUnk {
				add(m.unk)
			}
			unknown = true
		}
	}
	return all
}

// bytes writes a character as the tokens of its bytes.
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
