package loadsource

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/units"
)

// Kind is a kind of source.
type Kind string

// Kinds.
const (
	DiskImage Kind = "disk image" // an image on a disk of the node
	Folder    Kind = "disk"       // the files of the model
	Node      Kind = "node"       // an image of another node
)

// assumed has the speed of each kind in bytes per second until it is measured. An image needs no digest
// and no conversion; another node has both a source and a link.
var assumed = map[Kind]float64{DiskImage: 2e9, Folder: 1e9, Node: 0.5e9}

// weight is the weight of a new sample in an estimate.
const weight = 0.3

// Speeds has the measured speeds of sources. It is not safe for concurrent use.
type Speeds struct{ measured map[Kind]float64 }

// Observe records that a source has delivered some bytes in some time.
func (s *Speeds) Observe(k Kind, bytes int64, took time.Duration) {
	if bytes <= 0 || took <= 0 {
		return
	}
	sample := float64(bytes) / took.Seconds()
	if s.measured == nil {
		s.measured = make(map[Kind]float64)
	}
	if before, ok := s.measured[k]; ok {
		sample = before + weight*(sample-before)
	}
	s.measured[k] = sample
}

// Of returns the speed of a kind in bytes per second, and whether it was measured.
func (s *Speeds) Of(k Kind) (perSecond float64, measured bool) {
	if v, ok := s.measured[k]; ok {
		return v, true
	}
	return assumed[k], false
}

// Faster reports whether a kind is faster than another one, as far as is known.
func (s *Speeds) Faster(k, than Kind) bool {
	a, _ := s.Of(k)
	b, _ := s.Of(than)
	return a > b
}

// Order returns the indices of candidates, the fastest first, and why the first one is.
func (s *Speeds) Order(candidates []Kind) (order []int, why string) {
	for i := range candidates {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case s.Faster(candidates[a], candidates[b]):
			return -1
		case s.Faster(candidates[b], candidates[a]):
			return 1
		}
		return 0
	})
	if len(order) > 0 {
		why = "it " + s.text(candidates[order[0]])
	}
	for _, i := range order[min(1, len(order)):] {
		if k := candidates[i]; k != candidates[order[0]] {
			return order, why + ", and " + string(k) + " " + s.text(k)
		}
	}
	return order, why
}

func (s *Speeds) text(k Kind) string {
	v, measured := s.Of(k)
	how := "is assumed to deliver"
	if measured {
		how = "delivered"
	}
	return fmt.Sprintf("%s %s/s", how, units.FormatBytes(int64(v)))
}
