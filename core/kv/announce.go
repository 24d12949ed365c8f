package kv

import (
	"cmp"
	stdlist "container/list"
	"encoding/binary"
	"maps"
	"slices"
)

// shortBytes is what a block takes in an announcement.
const shortBytes = 8

// Short is how a block is announced: the first 8 bytes of its hash, big-endian.
func (h Hash) Short() uint64 { return binary.BigEndian.Uint64(h[:shortBytes]) }

// Shorts are those of some hashes, in order.
func Shorts(hashes []Hash) []uint64 {
	shorts := make([]uint64, len(hashes))
	for i, h := range hashes {
		shorts[i] = h.Short()
	}
	return shorts
}

// Announcement is what changed in the blocks that a replica can reuse.
type Announcement struct {
	Evicted   []uint64 // applied first
	Committed []uint64
	Snapshot  bool // Committed is all there is
}

// Announcer tells followers which blocks a replica holds, within a budget: the newest commits first. What was left out
// follows as soon as there is room. Beyond the total, a newer block takes the place of the one announced longest ago. It is a
// value for one owner.
//
// Invariants, checked by the property test, for a follower that applied every announcement:
//
//   - subset: it believes nothing but what the replica held at the last announcement
//   - budget: no announcement is larger than one may be, and the follower believes no more than the total
//   - complete: once nothing changes and there is nothing more to announce, it believes all that is held, or the total
type Announcer struct {
	each, total int                  // blocks in one announcement, and believed in all
	held        map[int32]*announced // by block
	pending     *stdlist.List        // of *announced: not announced, oldest commit first
	told        *stdlist.List        // of *announced: announced, the longest ago first
	gone        []uint64             // announced, and evicted since the last announcement
	commits     uint64
	begun       bool // an announcement was made
}

// announced is a block that the replica holds.
type announced struct {
	short  uint64
	number uint64 // of the commit
	told   bool
	at     *stdlist.Element // in told or pending
}

// NewAnnouncer returns an Announcer of a replica without blocks. The budgets are in bytes, of the 8 that each block in an
// announcement takes: in one announcement, and for all that followers believe.
func NewAnnouncer(eachBytes, totalBytes int) *Announcer {
	return &Announcer{
		each: eachBytes / shortBytes, total: totalBytes / shortBytes,
		held: make(map[int32]*announced), pending: stdlist.New(), told: stdlist.New(),
	}
}

// Grow raises the budget for all that followers believe, where it is smaller.
func (a *Announcer) Grow(totalBytes int) { a.total = max(a.total, totalBytes/shortBytes) }

// Changes takes what a Pool's Changes returned, or Restore restored.
func (a *Announcer) Changes(evicted []int32, committed []Committed) {
	for _, b := range evicted {
		a.evict(b)
	}
	for _, c := range committed {
		a.commits++
		b := &announced{short: c.Hash.Short(), number: a.commits}
		b.at = a.pending.PushBack(b)
		a.held[c.Block] = b
	}
}

func (a *Announcer) evict(block int32) {
	b, ok := a.held[block]
	if !ok {
		return
	}
	delete(a.held, block)
	if b.told {
		a.told.Remove(b.at)
		a.gone = append(a.gone, b.short)
	} else {
		a.pending.Remove(b.at)
	}
}

// Next is the next announcement, and false where there is nothing to tell. The first is a snapshot; so is one whose
// evictions alone would be more than the budget.
func (a *Announcer) Next() (Announcement, bool) {
	if !a.begun || len(a.gone) > a.each {
		return a.Snapshot(), true
	}
	n := Announcement{Evicted: a.gone}
	a.gone = nil
	for a.pending.Len() > 0 {
		room := a.each - len(n.Evicted) - len(n.Committed)
		newest := a.pending.Back().Value.(*announced)
		if full := a.told.Len() >= a.total; full && room >= 2 && a.total > 0 {
			oldest := a.told.Front().Value.(*announced)
			if oldest.number > newest.number {
				break
			}
			a.withdraw(oldest)
			n.Evicted = append(n.Evicted, oldest.short)
		} else if full || room == 0 {
			break
		}
		a.tell(newest)
		n.Committed = append(n.Committed, newest.short)
	}
	return n, len(n.Evicted)+len(n.Committed) > 0
}

func (a *Announcer) tell(b *announced) {
	a.pending.Remove(b.at)
	b.at, b.told = a.told.PushBack(b), true
}

// withdraw puts a block back to where its commit belongs, which is near the end: those behind it are newer.
func (a *Announcer) withdraw(b *announced) {
	a.told.Remove(b.at)
	after := a.pending.Back()
	for after != nil && after.Value.(*announced).number > b.number {
		after = after.Prev()
	}
	if b.told = false; after == nil {
		b.at = a.pending.PushFront(b)
	} else {
		b.at = a.pending.InsertAfter(b, after)
	}
}

// Snapshot announces the newest blocks that the budget allows as all there is. What is left out follows.
func (a *Announcer) Snapshot() Announcement {
	all := slices.SortedFunc(maps.Values(a.held), func(x, y *announced) int { return cmp.Compare(x.number, y.number) })
	a.begun, a.gone, a.pending, a.told = true, nil, stdlist.New(), stdlist.New()
	n := Announcement{Snapshot: true, Committed: make([]uint64, 0, min(len(all), a.each, a.total))}
	older := len(all) - cap(n.Committed)
	for i, b := range all {
		if b.told = i >= older; b.told {
			b.at = a.told.PushBack(b)
			n.Committed = append(n.Committed, b.short)
		} else {
			b.at = a.pending.PushBack(b)
		}
	}
	return n
}
