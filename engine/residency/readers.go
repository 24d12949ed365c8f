package residency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"troupe/core/hostcache"
	"troupe/cuda"
	"troupe/engine"
)

// reader permits one load of another device or node to read a copy.
type reader struct {
	EndedReader
	copy    *copied
	claimed bool
	ended   bool
	revoked string    // why it must end; empty: it need not
	expires time.Time // if it is not claimed
}

// EndedReader describes a reader that has ended.
type EndedReader struct {
	ID      string
	Copy    uint64
	Damaged string // how the weights are damaged; empty: they are not, as far as they were read
}

// FindWeights returns the image of a copy of a revision that fits a device, without content, or nil. The
// copy may be freed at any time.
func (s *Store) FindWeights(revision string, on cuda.Info) *engine.Image {
	if _, ok := s.loader.(engine.ImageLoader); !ok {
		return nil
	}
	if c := s.find(revision); c != nil {
		if w, ok := c.Weights.(engine.ReadableWeights); ok && w.Header().Fits(on) {
			return w.Header()
		}
	}
	return nil
}

// LoadedWeights describes weights on a device.
type LoadedWeights struct {
	Key         hostcache.Key
	Model, Path string
	On          cuda.Info // the device
}

// Loaded describes the weights on the device that can be read.
func (s *Store) Loaded() (all []LoadedWeights) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.copies)) {
		c := s.copies[n]
		if _, ok := c.Weights.(engine.ReadableWeights); ok {
			key := hostcache.Key{Digest: c.Digests().Revision, Layout: c.Info().WeightLayout}
			all = append(all, LoadedWeights{key, c.source.Model, c.source.Path, s.device.Info()})
		}
	}
	return all
}

// OpenReader permits one load to read a copy. The reader ends at the given time if it is not claimed
// before.
func (s *Store) OpenReader(id string, copy uint64, expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.copies[copy]; c != nil {
		s.readers[id] = &reader{EndedReader: EndedReader{ID: id, Copy: copy}, copy: c, expires: expires}
	}
}

// OnReaderEnded sets the function that is called when a reader has ended. It must not block.
func (s *Store) OnReaderEnded(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readerEnded = changed
}

// RevokeReaders makes the readers of a copy end, each after the part that it reads.
func (s *Store) RevokeReaders(copy uint64, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		if r.Copy == copy && !r.ended {
			r.revoked, r.ended = why, !r.claimed
		}
	}
}

// ExpireReaders ends the readers that nothing has claimed in time.
func (s *Store) ExpireReaders(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		if !r.claimed && now.After(r.expires) {
			r.ended = true
		}
	}
}

// EndedReaders returns the readers that have ended, by their IDs. They are kept until ForgetReader.
func (s *Store) EndedReaders() (all []EndedReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.readers)) {
		if r := s.readers[id]; r.ended {
			all = append(all, r.EndedReader)
		}
	}
	return all
}

// ForgetReader removes a reader that has ended.
func (s *Store) ForgetReader(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, id)
}

// readersOf returns the readers of a copy that have not ended, by their IDs. The caller holds the lock.
func (s *Store) readersOf(copy uint64) (all []string) {
	for _, id := range slices.Sorted(maps.Keys(s.readers)) {
		if r := s.readers[id]; r.Copy == copy && !r.ended {
			all = append(all, id)
		}
	}
	return all
}

// ReadWeights begins to read the copy of a reader, which can be claimed once. The source that it returns
// has a name and a kind given by the caller, which must close it.
func (s *Store) ReadWeights(ctx context.Context, id string, as SourceName) (*WeightsReader, error) {
	r, err := s.claim(id)
	if err != nil {
		return nil, err
	}
	w := &WeightsReader{SourceName: as, store: s, reader: r}
	readable, ok := r.copy.Weights.(engine.ReadableWeights)
	if !ok {
		err = fmt.Errorf("weights of %T cannot be read: %w", r.copy.Weights, errors.ErrUnsupported)
	} else {
		w.parts, err = readable.OpenParts(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

var errNoReader = errors.New("the weights have left the device")

func (s *Store) claim(id string) (*reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[id]
	if r == nil || r.claimed || r.ended || r.revoked != "" {
		return nil, errNoReader
	}
	r.claimed = true
	return r, nil
}
