package kv

import stdlist "container/list"

// order is a queue of blocks out of which any can be taken.
type order struct {
	blocks *stdlist.List // of Hash, oldest first
	at     map[Hash]*stdlist.Element
}

func newOrder() order { return order{stdlist.New(), make(map[Hash]*stdlist.Element)} }

func (o order) len() int { return o.blocks.Len() }

// push makes a block the newest, whether it was there or not.
func (o order) push(h Hash) {
	if e, ok := o.at[h]; ok {
		o.blocks.MoveToBack(e)
		return
	}
	o.at[h] = o.blocks.PushBack(h)
}

// remove reports whether the block was there.
func (o order) remove(h Hash) bool {
	e, ok := o.at[h]
	if ok {
		o.blocks.Remove(e)
		delete(o.at, h)
	}
	return ok
}

func (o order) has(h Hash) bool { _, ok := o.at[h]; return ok }

// oldest is the oldest block that may be taken.
func (o order) oldest(may func(Hash) bool) (Hash, bool) {
	for e := o.blocks.Front(); e != nil; e = e.Next() {
		if h := e.Value.(Hash); may(h) {
			return h, true
		}
	}
	return Hash{}, false
}

func whichever(Hash) bool { return true }
