package router

import (
	"maps"
	"slices"
	"sync"

	"troupe/messages"
)

// DeploymentCache is the set of stored deployments. It serves readers on the node that must not
// wait for the router's mailbox. Only the router writes to it. It survives crashes of the router
// and is safe for concurrent use.
type DeploymentCache struct {
	mu  sync.RWMutex
	all map[string]*messages.ApplyDeployment
}

// Find returns a deployment, or nil.
func (s *DeploymentCache) Find(name string) *messages.ApplyDeployment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name]
}

// list returns all deployments, by name.
func (s *DeploymentCache) list() (all []*messages.ApplyDeployment) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		all = append(all, s.all[name])
	}
	return all
}

func (s *DeploymentCache) put(d *messages.ApplyDeployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string]*messages.ApplyDeployment)
	}
	s.all[d.GetSpec().GetName()] = d
}

func (s *DeploymentCache) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}
