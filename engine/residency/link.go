package residency

import (
	"errors"
	"fmt"
	"math"
	"time"

	"troupe/cuda"
)

const (
	linkBytes  = 8 << 20 // of one copy, at most
	linkShare  = 128     // of the memory of the device: one copy takes at most 1/128
	linkRounds = 4
)

// MeasureLink measures the speed of copies from page-locked host memory to the device. The device must
// have memory to spare; call it before anything is loaded.
func (s *Store) MeasureLink() (err error) {
	bytes := min(linkBytes, s.device.Info().MemoryBytes/linkShare)
	from, err := s.device.AllocHost(bytes)
	if err != nil {
		return fmt.Errorf("measuring the link: %w", err)
	}
	defer func() { err = errors.Join(err, from.Free()) }()
	to, err := s.device.Alloc(bytes)
	if err != nil {
		return fmt.Errorf("measuring the link: %w", err)
	}
	defer func() { err = errors.Join(err, s.device.Free(to)) }()
	stream, err := s.device.NewStream("link")
	if err != nil {
		return fmt.Errorf("measuring the link: %w", err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	best, err := fastestCopy(stream, to, from.Bytes())
	if err != nil {
		return fmt.Errorf("measuring the link: %w", err)
	}
	s.speeds.observeLink(s.name, float64(bytes)/best.Seconds())
	return nil
}

// fastestCopy returns the time of the fastest of several copies. The first one is not counted, since it
// touches the memory for the first time.
func fastestCopy(stream cuda.Stream, to cuda.Ptr, from []byte) (best time.Duration, err error) {
	best = math.MaxInt64
	for i := range linkRounds + 1 {
		began := time.Now()
		if err := errors.Join(stream.CopyIn(to, from), stream.Sync()); err != nil {
			return 0, err
		}
		if took := time.Since(began); i > 0 {
			best = max(1, min(best, took))
		}
	}
	return best, nil
}
