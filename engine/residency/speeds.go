package residency

import (
	"sync"
	"time"

	"troupe/core/loadsource"
)

// Speeds has the measured speeds of the sources of a node. It is safe for concurrent use.
type Speeds struct {
	mu     sync.Mutex
	speeds loadsource.Speeds
}

// Observe records what a source has delivered.
func (s *Speeds) Observe(p loadsource.Path, bytes int64, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speeds.Observe(p, bytes, took)
}

func (s *Speeds) observeLink(device string, perSecond float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speeds.ObserveLink(device, perSecond)
}

func (s *Speeds) of(c loadsource.Candidate) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, _ := s.speeds.Of(c.Path, c.Direct)
	return v
}

func (s *Speeds) rank(bytes int64, all []loadsource.Candidate) (order []int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.speeds.Rank(bytes, all)
}

// nodesBeat reports whether other nodes are expected to be faster than a candidate.
func (s *Speeds) nodesBeat(c loadsource.Candidate, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.speeds.Beats(loadsource.Node, c, bytes) || s.speeds.Beats(loadsource.NodeDevice, c, bytes)
}

func (s *Speeds) floor(p loadsource.Path, bytes int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least, _ := s.speeds.Floor(p, bytes)
	return least
}

// hostPath is the path from the host cache to the device.
func (s *Store) hostPath() loadsource.Path { return loadsource.Path{Kind: loadsource.Host, To: s.name} }

func (s *Store) folderPath(folder string) loadsource.Path {
	return loadsource.Path{Kind: loadsource.Folder, From: DiskOf(folder), To: s.name}
}

func (s *Store) diskImagePath() loadsource.Path {
	return loadsource.Path{Kind: loadsource.DiskImage, From: DiskOf(s.disk.dir), To: s.name}
}

// deviceCandidate returns another device of the node as a source.
func (s *Store) deviceCandidate(name string, other *Store) loadsource.Candidate {
	return loadsource.Candidate{
		Path: loadsource.Path{Kind: loadsource.Device, From: name, To: s.name}, Name: name, Direct: s.reaches(other),
	}
}

// SpeedFrom returns the expected speed of copies from the device of another store, which has a name as a
// source; 0 for a nil store.
func (s *Store) SpeedFrom(name string, other *Store) float64 {
	if s == nil {
		return 0
	}
	return s.speeds.of(s.deviceCandidate(name, other))
}

// candidate describes an open source. Its folder is that of the model.
func (s *Store) candidate(i ImageSource, folder string) loadsource.Candidate {
	if w, ok := i.(*WeightsReader); ok {
		return s.deviceCandidate(i.Name(), w.store)
	}
	c := loadsource.Candidate{Name: i.Name()}
	switch i.Kind() {
	case loadsource.Host:
		c.Path = s.hostPath()
	case loadsource.Folder:
		c.Path = s.folderPath(folder)
	case loadsource.DiskImage:
		c.Path = s.diskImagePath()
	default:
		c.Path = loadsource.Path{Kind: i.Kind(), From: i.Name(), To: s.name}
	}
	return c
}
