package kv

// none is the index of no block.
const none int32 = -1

// list is a doubly linked list through the blocks, oldest first.
type list struct {
	first, last int32
	len         int
}

func (l *list) push(blocks []block, index int32) {
	b := &blocks[index]
	b.prev, b.next = l.last, none
	if l.last == none {
		l.first = index
	} else {
		blocks[l.last].next = index
	}
	l.last = index
	l.len++
}

// pushFirst makes a block the oldest.
func (l *list) pushFirst(blocks []block, index int32) {
	b := &blocks[index]
	b.prev, b.next = none, l.first
	if l.first == none {
		l.last = index
	} else {
		blocks[l.first].prev = index
	}
	l.first = index
	l.len++
}

func (l *list) remove(blocks []block, index int32) {
	b := &blocks[index]
	if b.prev == none {
		l.first = b.next
	} else {
		blocks[b.prev].next = b.next
	}
	if b.next == none {
		l.last = b.prev
	} else {
		blocks[b.next].prev = b.prev
	}
	l.len--
}
