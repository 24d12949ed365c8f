package kv

import (
	"encoding/binary"
	"math/bits"
)

// tinyLFU is W-TinyLFU (Einziger et al., "TinyLFU: A Highly Efficient Cache Admission Policy",
// 2017). A small window gives new blocks time to be used again. A block moves from the window to
// the main part only if it was used more often than the block that would leave for it. The main
// part is segmented LRU.
type tinyLFU struct {
	windowTarget int      // blocks in the window above which its oldest competes for admission
	maxMain      int      // blocks in the main part; below this number, admission needs no comparison
	window       lruQueue // least recently used first
	main         *slru
	counts       sketch
}

const windowShare = 0.01

func newTinyLFU(slots int) *tinyLFU {
	least := max(1, int(windowShare*float64(slots)))
	return &tinyLFU{
		windowTarget: least, maxMain: slots - least, window: newLRUQueue(),
		main: newSLRU(slots-least, protectedShare), counts: newSketch(slots),
	}
}

func (t *tinyLFU) Add(h Hash) {
	t.counts.add(h)
	t.window.push(h)
	for t.window.len() > t.windowTarget && t.main.len() < t.maxMain {
		oldest, _ := t.window.oldest(anyBlock)
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

func (t *tinyLFU) Victim(eligible func(Hash) bool) (Hash, bool) {
	mainVictim, full := t.main.Victim(eligible)
	if full && t.window.len() < t.windowTarget {
		return mainVictim, true
	}
	windowVictim, ok := t.window.oldest(eligible)
	switch {
	case !ok:
		return mainVictim, full
	case !full || t.counts.estimate(windowVictim) <= t.counts.estimate(mainVictim):
		return windowVictim, true
	}
	t.window.remove(windowVictim)
	t.main.Add(windowVictim)
	return mainVictim, true
}

// sketch estimates from above how often each block was used (count-min; Cormode and Muthukrishnan,
// 2005). All counts are halved periodically, so that past popularity fades.
type sketch struct {
	rows       [sketchRows][]uint8
	adds       int // uses since the counts were halved
	halveAfter int // uses after which the counts are halved
}

const (
	sketchRows = 4
	sketchMax  = 15
)

func newSketch(slots int) sketch {
	width := 1 << bits.Len(uint(4*slots))
	s := sketch{halveAfter: 10 * max(slots, 1)}
	for i := range s.rows {
		s.rows[i] = make([]uint8, width)
	}
	return s
}

// cell returns a block's counter in row i. The hash is uniform and long enough to give each row
// bits of its own.
func (s *sketch) cell(h Hash, i int) *uint8 {
	row := s.rows[i]
	return &row[int(binary.LittleEndian.Uint32(h[4*i:]))&(len(row)-1)]
}

func (s *sketch) estimate(h Hash) uint8 {
	least := uint8(sketchMax)
	for i := range s.rows {
		least = min(least, *s.cell(h, i))
	}
	return least
}

func (s *sketch) add(h Hash) {
	for i := range s.rows {
		if c := s.cell(h, i); *c < sketchMax {
			*c++
		}
	}
	if s.adds++; s.adds < s.halveAfter {
		return
	}
	s.adds = 0
	for _, row := range s.rows {
		for i := range row {
			row[i] /= 2
		}
	}
}
