package router

import (
	"maps"
	"slices"
	"sync"

	"troupe/messages"
)

// DeploymentCache is what is deployed, for those on the node who only want to read it and would wait for the router's turn. The router
// alone writes it; it outlives the router's crashes and is safe for concurrent use.
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

// names of all deployments, in order.
func (s *DeploymentCache) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.all))
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
