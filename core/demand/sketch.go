package demand

import (
	"fmt"
	"math"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

const (
	// Accuracy is the greatest relative error of a quantile.
	Accuracy = 0.01
	// maxBins bounds the memory of a sketch. A bin is 2 % wide, so that 2,048 of them cover 17 orders of magnitude.
	// Values below these are counted together.
	maxBins = 2048
)

var (
	// bins maps values to bins. All sketches have the same, so that they can be merged.
	bins, _  = mapping.NewLogarithmicMapping(Accuracy)
	newStore = func() store.Store { return store.NewCollapsingLowestDenseStore(maxBins) }
)

// Sketch is a distribution of values that are not negative. The zero value is empty.
type Sketch struct{ values *ddsketch.DDSketch }

// Add adds a value. A negative one counts as 0.
func (s *Sketch) Add(value float64) {
	s.init()
	_ = s.values.Add(max(value, 0)) // fails only for values beyond the mapping, which a float64 of seconds is not
}

// Merge adds the values of another sketch.
func (s *Sketch) Merge(other Sketch) {
	if other.Count() == 0 {
		return
	}
	s.init()
	_ = s.values.MergeWith(other.values) // fails only for other mappings
}

// Reset removes all values, and keeps the memory for others.
func (s *Sketch) Reset() {
	if s.values != nil {
		s.values.Clear()
	}
}

// MergeEncoded adds the values of an encoded sketch. It is faster than Decode and Merge. If it fails, it may have added
// some of the values.
func (s *Sketch) MergeEncoded(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s.init()
	if err := s.values.DecodeAndMergeWith(b); err != nil {
		return fmt.Errorf("decode a sketch of %d bytes: %w", len(b), err)
	}
	return nil
}

func (s *Sketch) init() {
	if s.values == nil {
		s.values = ddsketch.NewDDSketch(bins, newStore(), newStore())
	}
}

// Count returns the number of values.
func (s Sketch) Count() uint64 {
	if s.values == nil {
		return 0
	}
	return uint64(s.values.GetCount())
}

// Quantile returns the smallest value that a share q of the values does not exceed (the nearest rank). It is
// unknown if there are none.
func (s Sketch) Quantile(q float64) (value float64, known bool) {
	n := float64(s.Count())
	if n == 0 {
		return 0, false
	}
	rank := max(math.Ceil(q*n)-1, 0)
	// The library takes the value of rank floor(q * (n-1)); half a rank more is the same one, without rounding down.
	value, err := s.values.GetValueAtQuantile(min((rank+0.5)/max(n-1, 1), 1))
	return value, err == nil
}

// Mean returns the mean of the values, with an error of at most Accuracy. It is unknown if there are none.
func (s Sketch) Mean() (value float64, known bool) {
	if s.Count() == 0 {
		return 0, false
	}
	return s.values.GetSum() / s.values.GetCount(), true
}

// Encode returns the sketch in the encoding of its library, or nil if it is empty.
func (s Sketch) Encode() []byte {
	if s.Count() == 0 {
		return nil
	}
	var b []byte
	s.values.Encode(&b, true)
	return b
}

// Decode returns an encoded sketch.
func Decode(b []byte) (Sketch, error) {
	if len(b) == 0 {
		return Sketch{}, nil
	}
	values, err := ddsketch.DecodeDDSketch(b, newStore, bins)
	if err != nil {
		return Sketch{}, fmt.Errorf("decode a sketch of %d bytes: %w", len(b), err)
	}
	return Sketch{values}, nil
}
