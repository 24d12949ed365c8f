package kv

import stdlist "container/list"

// lruQueue is a queue of blocks that supports removal of any block.
type lruQueue struct {
	blocks *stdlist.List // of Hash, oldest first
	elems  map[Hash]*stdlist.Element
}

func newLRUQueue() lruQueue { return lruQueue{stdlist.New(), make(map[Hash]*stdlist.Element)} }

func (o lruQueue) len() int { return o.blocks.Len() }

// push makes a block the newest, whether or not it was queued.
func (o lruQueue) push(h Hash) {
	if e, ok := o.elems[h]; ok {
		o.blocks.MoveToBack(e)
		return
	}
	o.elems[h] = o.blocks.PushBack(h)
}

// remove removes a block. It reports whether the block was queued.
func (o lruQueue) remove(h Hash) bool {
	e, ok := o.elems[h]
	if ok {
		o.blocks.Remove(e)
		delete(o.elems, h)
	}
	return ok
}

func (o lruQueue) has(h Hash) bool { _, ok := o.elems[h]; return ok }

// oldest returns the oldest eligible block. It reports false if there is none.
func (o lruQueue) oldest(eligible func(Hash) bool) (Hash, bool) {
	for e := o.blocks.Front(); e != nil; e = e.Next() {
		if h := e.Value.(Hash); eligible(h) {
			return h, true
		}
	}
	return Hash{}, false
}

func anyBlock(Hash) bool { return true }
