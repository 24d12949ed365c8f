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
func (s *Speeds) Observe(k loadsource.Kind, bytes int64, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speeds.Observe(k, bytes, took)
}

// order puts sources in order, the fastest first, and says why.
func (s *Speeds) order(all []ImageSource) (sorted []ImageSource, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds []loadsource.Kind
	for _, one := range all {
		kinds = append(kinds, one.Kind())
	}
	order, why := s.speeds.Order(kinds)
	for _, i := range order {
		sorted = append(sorted, all[i])
	}
	return sorted, why
}

func (s *Speeds) floor(k loadsource.Kind, link float64, bytes int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least, _ := s.speeds.Floor(k, link, bytes)
	return least
}

func (s *Speeds) faster(k, than loadsource.Kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.speeds.Faster(k, than)
}
