package kv

import (
	"encoding/binary"
	"math/bits"
)

// tinyLFU lets a new block into the main part only where it was wanted more often than the one that would leave for it (Einziger et al.,
// "TinyLFU: A Highly Efficient Cache Admission Policy", 2017). A small window gives new blocks time to be wanted again; the main part is
// LRU with protection by reuse.
type tinyLFU struct {
	least  int   // blocks in the window from which on its oldest has to prove itself
	room   int   // blocks in the main part, up to which nobody has to
	window order // least recently used first
	main   *segmented
	counts sketch
}

const windowShare = 0.01

func newTinyLFU(slots int) *tinyLFU {
	least := max(1, int(windowShare*float64(slots)))
	return &tinyLFU{least: least, room: slots - least, window: newOrder(), main: newSegmented(slots-least, protectedShare), counts: newSketch(slots)}
}

func (t *tinyLFU) Add(h Hash) {
	t.counts.add(h)
	t.window.push(h)
	for t.window.len() > t.least && t.main.len() < t.room {
		oldest, _ := t.window.oldest(whichever)
		t.window.remove(oldest)
		t.main.Add(oldest)
	}
}

func (t *tinyLFU) Use(h Hash) {
	t.counts.add(h)
	if t.window.has(h) {
		t.window.push(h)
	} else {
		t.main.Use(h)
	}
}

func (t *tinyLFU) Remove(h Hash) {
	t.window.remove(h)
	t.main.Remove(h)
}

func (t *tinyLFU) Victim(may func(Hash) bool) (Hash, bool) {
	settled, full := t.main.Victim(may)
	if full && t.window.len() < t.least {
		return settled, true
	}
	fresh, ok := t.window.oldest(may)
	switch {
	case !ok:
		return settled, full
	case !full || t.counts.of(fresh) <= t.counts.of(settled):
		return fresh, true
	}
	t.window.remove(fresh)
	t.main.Add(fresh)
	return settled, true
}

// sketch estimates how often blocks were told of, from above (count-min; Cormode and Muthukrishnan, 2005). All counts are halved
// from time to time, so that what was popular once is forgotten.
type sketch struct {
	rows  [sketchRows][]uint8
	added int // since the counts were halved
	age   int // when to halve them
}

const (
	sketchRows = 4
	sketchMost = 15
)

func newSketch(slots int) sketch {
	width := 1 << bits.Len(uint(4*slots))
	s := sketch{age: 10 * max(slots, 1)}
	for i := range s.rows {
		s.rows[i] = make([]uint8, width)
	}
	return s
}

// cell is a block's count in row i: its hash is uniform, and long enough to give each row bits of its own.
func (s *sketch) cell(h Hash, i int) *uint8 {
	row := s.rows[i]
	return &row[int(binary.LittleEndian.Uint32(h[4*i:]))&(len(row)-1)]
}

func (s *sketch) of(h Hash) uint8 {
	least := uint8(sketchMost)
	for i := range s.rows {
		least = min(least, *s.cell(h, i))
	}
	return least
}

func (s *sketch) add(h Hash) {
	for i := range s.rows {
		if c := s.cell(h, i); *c < sketchMost {
			*c++
		}
	}
	if s.added++; s.added < s.age {
		return
	}
	s.added = 0
	for _, row := range s.rows {
		for i := range row {
			row[i] /= 2
		}
	}
}
