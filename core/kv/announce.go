package kv

import (
	"cmp"
	stdlist "container/list"
	"encoding/binary"
	"slices"
)

// fingerprintBytes is the size of one block in an announcement.
const fingerprintBytes = 8

// Fingerprint64 returns the first 8 bytes of the hash, big-endian. Announcements identify blocks by
// it.
func (h Hash) Fingerprint64() uint64 { return binary.BigEndian.Uint64(h[:fingerprintBytes]) }

// Fingerprints returns the fingerprints of the hashes, in order.
func Fingerprints(hashes []Hash) []uint64 {
	fingerprints := make([]uint64, len(hashes))
	for i, h := range hashes {
		fingerprints[i] = h.Fingerprint64()
	}
	return fingerprints
}

// Announcement lists the changes to the blocks that a replica can reuse.
type Announcement struct {
	Evicted   []uint64 // applied first
	Committed []uint64
	Snapshot  bool // Committed replaces everything announced before
}

// Announcer tells followers which blocks a replica holds, within a size budget and the newest
// commits first. Blocks that did not fit are announced as soon as there is room. Once maxTotal
// blocks are announced, a newer block replaces the one announced longest ago. An Announcer is not
// safe for concurrent use.
//
// Invariants, checked by the property test, for a follower that applied every announcement:
//
//   - subset: the follower knows only blocks that the replica held at the last announcement
//   - budget: no announcement exceeds maxPerMessage, and the follower knows at most maxTotal blocks
//   - complete: once nothing changes and no announcement is pending, the follower knows all held
//     blocks, or maxTotal of them
type Announcer struct {
	maxPerMessage, maxTotal int           // blocks in one announcement, and announced in total
	held                    []*heldBlock  // by block index; nil: not held
	pending                 *stdlist.List // of *heldBlock: not announced yet, oldest commit first
	sent                    *stdlist.List // of *heldBlock: announced, the longest ago first
	unsentEvictions         []uint64      // announced blocks evicted since the last announcement
	commits                 uint64
	started                 bool // the first announcement was made
}

// heldBlock is a block that the replica holds.
type heldBlock struct {
	fingerprint  uint64
	commitNumber uint64 // order of the commits
	sent         bool
	elem         *stdlist.Element // in sent or pending
}

// NewAnnouncer returns an Announcer for a replica without blocks. messageBytes limits one
// announcement and totalBytes all blocks known to followers; a block takes 8 bytes of either.
func NewAnnouncer(messageBytes, totalBytes int) *Announcer {
	return &Announcer{
		maxPerMessage: messageBytes / fingerprintBytes, maxTotal: totalBytes / fingerprintBytes,
		pending: stdlist.New(), sent: stdlist.New(),
	}
}

// Grow raises the total budget to totalBytes. It never lowers it.
func (a *Announcer) Grow(totalBytes int) { a.maxTotal = max(a.maxTotal, totalBytes/fingerprintBytes) }

// Room returns how many more changes the next announcement has room for.
func (a *Announcer) Room() int {
	return max(0, a.maxPerMessage-len(a.unsentEvictions)-a.pending.Len())
}

// Pending reports whether there are changes to announce.
func (a *Announcer) Pending() bool { return len(a.unsentEvictions)+a.pending.Len() > 0 }

// Apply records changes as returned by Pool.Changes, or blocks adopted by Recover.
func (a *Announcer) Apply(evicted []int32, committed []Committed) {
	for _, b := range evicted {
		a.evict(b)
	}
	for _, c := range committed {
		a.commits++
		b := &heldBlock{fingerprint: c.Hash.Fingerprint64(), commitNumber: a.commits}
		b.elem = a.pending.PushBack(b)
		for int(c.Block) >= len(a.held) {
			a.held = append(a.held, nil)
		}
		a.held[c.Block] = b
	}
}

func (a *Announcer) evict(block int32) {
	if int(block) >= len(a.held) || a.held[block] == nil {
		return
	}
	b := a.held[block]
	a.held[block] = nil
	if b.sent {
		a.sent.Remove(b.elem)
		a.unsentEvictions = append(a.unsentEvictions, b.fingerprint)
	} else {
		a.pending.Remove(b.elem)
	}
}

// Next returns the next announcement. It reports false if there is nothing to announce. The first
// announcement is a snapshot, and so is one whose evictions alone would exceed the budget.
func (a *Announcer) Next() (Announcement, bool) {
	if !a.started || len(a.unsentEvictions) > a.maxPerMessage {
		return a.Snapshot(), true
	}
	n := Announcement{Evicted: a.unsentEvictions}
	a.unsentEvictions = nil
	for a.pending.Len() > 0 {
		room := a.maxPerMessage - len(n.Evicted) - len(n.Committed)
		newest := a.pending.Back().Value.(*heldBlock)
		if full := a.sent.Len() >= a.maxTotal; full && room >= 2 && a.maxTotal > 0 {
			oldest := a.sent.Front().Value.(*heldBlock)
			if oldest.commitNumber > newest.commitNumber {
				break
			}
			a.unsend(oldest)
			n.Evicted = append(n.Evicted, oldest.fingerprint)
		} else if full || room == 0 {
			break
		}
		a.markSent(newest)
		n.Committed = append(n.Committed, newest.fingerprint)
	}
	return n, len(n.Evicted)+len(n.Committed) > 0
}

func (a *Announcer) markSent(b *heldBlock) {
	a.pending.Remove(b.elem)
	b.elem, b.sent = a.sent.PushBack(b), true
}

// unsend moves an announced block back to pending. It searches from the newest end because only
// later commits are behind it.
func (a *Announcer) unsend(b *heldBlock) {
	a.sent.Remove(b.elem)
	after := a.pending.Back()
	for after != nil && after.Value.(*heldBlock).commitNumber > b.commitNumber {
		after = after.Prev()
	}
	if b.sent = false; after == nil {
		b.elem = a.pending.PushFront(b)
	} else {
		b.elem = a.pending.InsertAfter(b, after)
	}
}

// Snapshot returns an announcement that replaces all earlier ones. It holds the newest blocks that
// fit the budget; the rest follow in later announcements.
func (a *Announcer) Snapshot() Announcement {
	all := slices.DeleteFunc(slices.Clone(a.held), func(b *heldBlock) bool { return b == nil })
	slices.SortFunc(all, func(x, y *heldBlock) int { return cmp.Compare(x.commitNumber, y.commitNumber) })
	a.started, a.unsentEvictions, a.pending, a.sent = true, nil, stdlist.New(), stdlist.New()
	n := Announcement{Snapshot: true, Committed: make([]uint64, 0, min(len(all), a.maxPerMessage, a.maxTotal))}
	older := len(all) - cap(n.Committed)
	for i, b := range all {
		if b.sent = i >= older; b.sent {
			b.elem = a.sent.PushBack(b)
			n.Committed = append(n.Committed, b.fingerprint)
		} else {
			b.elem = a.pending.PushBack(b)
		}
	}
	return n
}
