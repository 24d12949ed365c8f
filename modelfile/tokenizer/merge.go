package tokenizer

// symbol is a token of a word that is being merged, in a doubly linked list. prev and next are
// indices; -1 means none.
type symbol struct {
	id         uint32
	prev, next int32
	gone       bool
}

// link appends a token to a word.
func link(word []symbol, id uint32) []symbol {
	n := int32(len(word))
	if n > 0 {
		word[n-1].next = n
	}
	return append(word, symbol{id: id, prev: n - 1, next: -1})
}

// candidate is a pair that can be merged. Candidates are ordered by rank, then by position from the
// left.
type candidate struct {
	order uint64
	pair
	id uint32
}

// merge merges pairs, the one with the lowest rank first, until none is left. A heap avoids time
// quadratic in the length of a word.
func (e *encoding) merge(word []symbol) {
	m := &e.t.model
	var q queue
	offer := func(at int32) {
		if at < 0 || word[at].next < 0 {
			return
		}
		p := pair{word[at].id, word[word[at].next].id}
		if r, ok := m.merges[p]; ok {
			q.push(candidate{uint64(r.rank)<<32 | uint64(at), p, r.id})
		}
	}
	for i := range word {
		offer(int32(i))
	}
	for len(q) > 0 && e.goesOn() {
		c := q.pop()
		at := int32(uint32(c.order))
		left := &word[at]
		if left.gone || left.id != c.left || left.next < 0 || word[left.next].id != c.right {
			continue // already merged with another
		}
		right := &word[left.next]
		left.id, left.next, right.gone = c.id, right.next, true
		if left.next >= 0 {
			word[left.next].prev = at
		}
		offer(left.prev)
		offer(at)
	}
}

// queue is a binary min-heap by order. container/heap would allocate for each element.
type queue []candidate

func (q *queue) push(c candidate) {
	*q = append(*q, c)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].order <= h[i].order {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *queue) pop() candidate {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	*q = h
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			return first
		}
		if least+1 < last && h[least+1].order < h[least].order {
			least++
		}
		if h[i].order <= h[least].order {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
