package kv

// none is the index that refers to no block.
const none int32 = -1

// blockList is a doubly linked list of blocks, oldest first. The links are in the blocks.
type blockList struct {
	first, last int32
	len         int
}

func (l *blockList) push(blocks []block, index int32) {
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

// pushFront makes a block the oldest.
func (l *blockList) pushFront(blocks []block, index int32) {
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

func (l *blockList) remove(blocks []block, index int32) {
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
