package router

import (
	"maps"
	"slices"
	"sync/atomic"

	"troupe/messages"
)

// DeploymentCache is the set of stored deployments. It serves readers on the node that must not
// wait for the router's mailbox. Only the router writes to it: each change publishes another map,
// and no published map changes. It survives crashes of the router.
type DeploymentCache struct {
	published atomic.Pointer[map[string]*messages.ApplyDeployment] // nil: empty
}

func (s *DeploymentCache) all() map[string]*messages.ApplyDeployment {
	if all := s.published.Load(); all != nil {
		return *all
	}
	return nil
}

// Find returns a deployment, or nil.
func (s *DeploymentCache) Find(name string) *messages.ApplyDeployment { return s.all()[name] }

// All returns all deployments, by name.
func (s *DeploymentCache) All() (all []*messages.ApplyDeployment) {
	now := s.all()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		all = append(all, now[name])
	}
	return all
}

func (s *DeploymentCache) put(d *messages.ApplyDeployment) {
	s.change(func(all map[string]*messages.ApplyDeployment) { all[d.GetSpec().GetName()] = d })
}

func (s *DeploymentCache) remove(name string) {
	s.change(func(all map[string]*messages.ApplyDeployment) { delete(all, name) })
}

// change publishes a changed copy. Two incarnations of the router never run at once.
func (s *DeploymentCache) change(apply func(map[string]*messages.ApplyDeployment)) {
	next := maps.Clone(s.all())
	if next == nil {
		next = make(map[string]*messages.ApplyDeployment)
	}
	apply(next)
	s.published.Store(&next)
}
