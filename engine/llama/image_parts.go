package llama

import (
	"github.com/zeebo/xxh3"

	"troupe/engine"
)

// partsOf returns the parts of an image without checksums.
func partsOf(size int64) (all []engine.ImageSum) {
	for at := int64(0); at < size; at += engine.ImagePartBytes {
		all = append(all, engine.ImageSum{Offset: at, Bytes: min(engine.ImagePartBytes, size-at)})
	}
	return all
}

// sameParts reports whether an image has the parts of its size.
func sameParts(found, want []engine.ImageSum) bool {
	if len(found) != len(want) {
		return false
	}
	for i, s := range found {
		if s.Offset != want[i].Offset || s.Bytes != want[i].Bytes {
			return false
		}
	}
	return true
}

// partSums computes the checksums of the parts of an image, each once all its bytes are there.
type partSums struct {
	memory []byte
	sums   []engine.ImageSum
	left   []int64 // bytes of each part that are not there yet
}

func newPartSums(memory []byte, size int64) *partSums {
	p := &partSums{memory: memory, sums: partsOf(size)}
	for _, s := range p.sums {
		p.left = append(p.left, s.Bytes)
	}
	return p
}

// wrote notes that bytes from an offset are there.
func (p *partSums) wrote(at, bytes int64) {
	for bytes > 0 {
		i := at / engine.ImagePartBytes
		n := min(bytes, (i+1)*engine.ImagePartBytes-at)
		if p.left[i] -= n; p.left[i] == 0 {
			s := &p.sums[i]
			s.Sum = xxh3.Hash(p.memory[s.Offset:][:s.Bytes])
		}
		at, bytes = at+n, bytes-n
	}
}

// gap is a range between two tensors.
type gap struct{ begin, end int64 }

// gaps returns the gaps in the memory of the weights, in order.
func (w *Weights) gaps() (all []gap) {
	tensors, _ := place(w.Config, w.dtype)
	for _, t := range tensors {
		if g := (gap{t.offset + t.bytes(), t.end(t.offset)}); g.begin < g.end {
			all = append(all, g)
		}
	}
	return all
}

// clearGaps clears the gaps within a part at an offset, and returns those that reach beyond it. Device
// memory has any content there.
func clearGaps(part []byte, offset int64, gaps []gap) []gap {
	end := offset + int64(len(part))
	for len(gaps) > 0 && gaps[0].begin < end {
		clear(part[max(gaps[0].begin, offset)-offset : min(gaps[0].end, end)-offset])
		if gaps[0].end > end {
			return gaps
		}
		gaps = gaps[1:]
	}
	return gaps
}
