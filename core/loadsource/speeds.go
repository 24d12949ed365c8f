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
	Device     Kind = "device"                 // weights on another device of the node
	DiskImage  Kind = "disk image"             // an image on a disk of the node
	Folder     Kind = "disk"                   // the files of the model
	Node       Kind = "node"                   // an image of another node
	NodeDevice Kind = "device of another node" // weights on a device there
	Host       Kind = "host cache"             // an image in page-locked host memory, which is as fast as the link
)

// assumed has the speed of each kind in bytes per second until it is measured. An image needs no digest
// and no conversion; another node has both a source and a link, and weights on its device pass through
// its host memory, too.
var assumed = map[Kind]float64{Device: 8e9, DiskImage: 2e9, Folder: 1e9, Node: 0.5e9, NodeDevice: 0.4e9}

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

// Floor returns the least time in which bytes can come from a source over a link of the given speed in
// bytes per second. It is unknown if one of the two speeds was not measured.
func (s *Speeds) Floor(k Kind, link float64, bytes int64) (least time.Duration, known bool) {
	slower := link
	if k != Host {
		speed, measured := s.Of(k)
		if !measured {
			return 0, false
		}
		if slower = min(link, speed); k == Device { // its copies do not use the link to the host
			slower = speed
		}
	}
	if slower <= 0 || bytes <= 0 {
		return 0, false
	}
	return time.Duration(float64(bytes) / slower * float64(time.Second)), true
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
