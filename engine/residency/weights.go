package residency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"troupe/core/loadsource"
	core "troupe/core/residency"
	"troupe/engine"
)

// copied is a copy of weights.
type copied struct {
	engine.Weights
	number uint64
	source core.Source
	from   Origin
	leases int // that use it
}

// Origin is where weights were loaded from.
type Origin struct {
	Source string        // its name
	Why    string        // why this source was used
	Floor  time.Duration // least time of the load, see loadsource.Speeds.Floor; 0: nothing was measured
	Verify time.Duration // of the canaries, with those of sources that were rejected
}

// FromHostCache is the name of the host cache as a source; the others are those of loadsource.
const FromHostCache = string(loadsource.Host)

// weightLoad is a load of weights in flight.
type weightLoad struct {
	cancelled <-chan struct{}
	ended     chan struct{}
}

// Inspected describes a model as it would be on the device.
type Inspected struct {
	engine.ModelInfo
	Revision string // digest of its files; empty: not known without reading them
}

// Inspect describes a model as it would be on this device. If a copy or an image has the revision, its
// folder is not read. If the folder cannot be read, it asks other devices and other nodes.
func (s *Store) Inspect(path, revision string) (Inspected, error) {
	if c := s.find(revision); c != nil {
		return Inspected{c.Info(), revision}, nil
	}
	if i := s.images.Find(revision, s.device.Info()); i != nil {
		return Inspected{i.InfoOn(s.device.Info()), revision}, nil
	}
	if i := s.disk.Find(revision, s.device.Info()); i != nil {
		return Inspected{i.InfoOn(s.device.Info()), revision}, nil
	}
	info, err := s.loader.Inspect(path, s.device.Info())
	if err != nil && s.peers != nil {
		if i, _ := s.peers.Find(revision, s.device.Info()); i != nil {
			return Inspected{i.InfoOn(s.device.Info()), revision}, nil
		}
	}
	if err != nil && s.others != nil {
		if i := s.others.Header(revision, s.device.Info()); i != nil {
			return Inspected{i.InfoOn(s.device.Info()), revision}, nil
		}
	}
	if err != nil {
		return Inspected{}, err
	}
	i := Inspected{ModelInfo: info}
	if cache, ok := s.loader.(engine.DigestCache); ok {
		found, _ := cache.CachedDigests(path)
		i.Revision = found.Revision
	}
	return i, nil
}

// Elsewhere returns a source of a revision that is neither the folder nor the device of the store itself; empty:
// there is none. It asks other nodes if this one has none.
func (s *Store) Elsewhere(revision string) string {
	on := s.device.Info()
	switch {
	case revision == "":
		return ""
	case s.images.Find(revision, on) != nil:
		return FromHostCache
	case s.disk.Has(revision, on):
		return string(loadsource.DiskImage)
	}
	if s.peers != nil {
		if all := s.peers.List(revision, on, s); len(all) > 0 {
			return all[0].Name
		}
	}
	if s.others != nil {
		return s.others.Has(revision, on)
	}
	return ""
}

// folderHas reports whether a folder can be read, and is not known to have other files.
func (s *Store) folderHas(path, revision string) bool {
	if _, err := s.loader.Inspect(path, s.device.Info()); err != nil {
		return false
	}
	if cache, ok := s.loader.(engine.DigestCache); ok && revision != "" {
		found, changed := cache.CachedDigests(path)
		return !changed && (found.Revision == "" || found.Revision == revision)
	}
	return true
}

// find returns a copy of a revision, or nil.
func (s *Store) find(revision string) *copied {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.copies)) {
		if c := s.copies[n]; revision != "" && c.Digests().Revision == revision {
			return c
		}
	}
	return nil
}

// LoadWeights loads weights as the copy with the given number. It first waits for loads that were
// cancelled and have not ended yet, since their memory is free only then. If it fails or is
// cancelled, it leaves nothing.
//
// The ticket is for an image in the host cache: weights are loaded from an image that is there, and
// otherwise an image is filled from the folder. Without a ticket neither happens.
func (s *Store) LoadWeights(ctx context.Context, number uint64, source core.Source, ticket string) (_ core.Content,
	err error) {
	use := s.images.Claim(ticket)
	defer func() { err = errors.Join(err, use.Close()) }()
	load := &weightLoad{cancelled: ctx.Done(), ended: make(chan struct{})}
	for _, other := range s.begin(load) {
		select {
		case <-other.ended:
		case <-ctx.Done():
		}
	}
	defer s.end(load)
	if err := ctx.Err(); err != nil {
		return core.Content{}, err
	}
	weights, from, err := s.loadChecked(ctx, source, use)
	if err != nil {
		return core.Content{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The incarnation that cancelled the load does not know the copy.
	if err := ctx.Err(); err != nil {
		return core.Content{}, errors.Join(err, weights.Free())
	}
	s.copies[number] = &copied{Weights: weights, number: number, source: source, from: from}
	return contentOf(weights), nil
}

func contentOf(w engine.Weights) core.Content {
	return core.Content{Weights: w.Digests().Weights, Revision: w.Digests().Revision}
}

// begin records a load and returns the cancelled ones.
func (s *Store) begin(load *weightLoad) (cancelled []*weightLoad) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.loading {
		select {
		case <-other.cancelled:
			cancelled = append(cancelled, other)
		default:
		}
	}
	s.loading = append(s.loading, load)
	return cancelled
}

func (s *Store) end(load *weightLoad) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loading = slices.DeleteFunc(s.loading, func(l *weightLoad) bool { return l == load })
	close(load.ended)
}

// FreeWeights frees a copy. It fails while a lease uses it.
func (s *Store) FreeWeights(number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.copies[number]
	if !ok {
		return nil
	}
	if c.leases > 0 {
		return fmt.Errorf("weights %d: %d leases use them; unload those first", number, c.leases)
	}
	if readers := s.readersOf(number); len(readers) > 0 {
		return fmt.Errorf("weights %d: %d other devices or nodes copy them", number, len(readers))
	}
	if err := c.Free(); err != nil {
		return fmt.Errorf("freeing weights %d: %w", number, err)
	}
	delete(s.copies, number)
	return nil
}

// Copies returns the copies that are loaded, by number.
func (s *Store) Copies() (all []core.Copy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.copies)) {
		c := s.copies[n]
		all = append(all, core.Copy{Number: n, Source: c.source, Content: contentOf(c), Readers: s.readersOf(n)})
	}
	return all
}

// Loads returns how often weights were loaded.
func (s *Store) Loads() int { return int(s.loads.Load()) }
