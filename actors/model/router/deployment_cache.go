package router

import (
	"maps"
	"slices"
	"sync/atomic"

	"troupe/messages"
)

// DeploymentCache is the set of stored deployments. It serves readers on the node that must not
// wait for the router's mailbox. Only the router writes to it: each change publishes another state,
// and no published state changes. It survives crashes of the router.
type DeploymentCache struct {
	published atomic.Pointer[published] // nil: empty
}

// maxChanged is the number of changes from which they are merged with the rest, so that a change of one among
// thousands of deployments does not copy them all.
const maxChanged = 128

// published are deployments by name. Those in changed come before those in rest; a nil one is removed.
type published struct {
	changed, rest map[string]*messages.ApplyDeployment
}

// Find returns a deployment, or nil.
func (s *DeploymentCache) Find(name string) *messages.ApplyDeployment {
	p := s.published.Load()
	if p == nil {
		return nil
	}
	if d, changed := p.changed[name]; changed {
		return d
	}
	return p.rest[name]
}

// All returns all deployments, by name.
func (s *DeploymentCache) All() (all []*messages.ApplyDeployment) {
	p := s.published.Load()
	if p == nil {
		return nil
	}
	merged := p.rest
	if len(p.changed) > 0 {
		merged = p.merge()
	}
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		all = append(all, merged[name])
	}
	return all
}

// merge returns all deployments.
func (p *published) merge() map[string]*messages.ApplyDeployment {
	all := maps.Clone(p.rest)
	if all == nil {
		all = make(map[string]*messages.ApplyDeployment)
	}
	for name, d := range p.changed {
		if d == nil {
			delete(all, name)
		} else {
			all[name] = d
		}
	}
	return all
}

func (s *DeploymentCache) put(d *messages.ApplyDeployment) { s.change(d.GetSpec().GetName(), d) }

func (s *DeploymentCache) remove(name string) { s.change(name, nil) }

// change publishes a changed copy. Two incarnations of the router never run at once.
func (s *DeploymentCache) change(name string, d *messages.ApplyDeployment) {
	next := &published{changed: make(map[string]*messages.ApplyDeployment)}
	if p := s.published.Load(); p != nil {
		next.rest = p.rest
		maps.Copy(next.changed, p.changed)
	}
	if next.changed[name] = d; len(next.changed) >= maxChanged {
		next = &published{rest: next.merge()}
	}
	s.published.Store(next)
}
