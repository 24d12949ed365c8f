package dst

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/actors/model/deployment"
	"troupe/messages"
)

const (
	renewEvery = 300 * time.Millisecond // between two renewals of a member's record
	silentFor  = 1500 * time.Millisecond
	// selfFence is the time without a renewal after which a member no longer considers itself a
	// member. Its peers wait longer before they consider it lost.
	selfFence = 1200 * time.Millisecond
)

var errUnavailable = errors.New("the store does not answer")

// Registry is the store of a cluster: members, role leases and deployments. It has the semantics of
// cluster/members and cluster/store: terms and revisions only grow, a role has at most one live
// holder, and a member that falls silent is lost.
type Registry struct {
	mu          sync.Mutex
	revision    uint64
	members     map[string]*memberRecord // by name
	leases      map[string]lease         // by role
	deployments map[string]storedSpec    // by name
	changed     chan struct{}            // closed at the next change of a deployment
}

type memberRecord struct {
	member  *messages.Member
	renewed time.Time
}

type lease struct {
	member string // id of the member
	name   string
	term   uint64
}

type storedSpec struct {
	spec     *messages.DeploymentSpec // nil: deleted
	revision uint64
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{members: make(map[string]*memberRecord), leases: make(map[string]lease),
		deployments: make(map[string]storedSpec), changed: make(chan struct{})}
}

// Put stores a deployment; nil deletes it.
func (r *Registry) Put(name string, spec *messages.DeploymentSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(name, spec)
}

// Update changes a stored deployment.
func (r *Registry) Update(name string, change func(*messages.DeploymentSpec)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.deployments[name].spec; old != nil {
		spec := proto.CloneOf(old)
		change(spec)
		r.put(name, spec)
	}
}

func (r *Registry) put(name string, spec *messages.DeploymentSpec) {
	r.revision++
	r.deployments[name] = storedSpec{spec, r.revision}
	close(r.changed)
	r.changed = make(chan struct{})
}

// live returns the members that are not silent, by name.
func (r *Registry) live(now time.Time) (all []*messages.Member) {
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		if m := r.members[name]; now.Sub(m.renewed) < silentFor {
			all = append(all, m.member)
		}
	}
	return all
}

// client is the access of one node to the registry. It fails while the node is cut off, and after
// the node has crashed.
type client struct {
	registry *Registry
	self     *messages.Member
	now      func() time.Time
	gone     chan struct{} // closed when the node has crashed

	mu      sync.Mutex
	down    bool
	renewed time.Time          // start of the last successful renewal
	view    []*messages.Member // live members at the last renewal
	leases  map[string]lease
}

func (c *client) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

func (c *client) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// renew renews the node's record and reads those of the other members.
func (c *client) renew() error {
	now := c.now()
	if c.isDown() {
		return errUnavailable
	}
	r := c.registry
	r.mu.Lock()
	if old := r.members[c.self.GetName()]; old == nil || now.Sub(old.renewed) >= silentFor {
		r.revision++ // it was considered dead, so it becomes a new member
		c.self = proto.CloneOf(c.self)
		c.self.Incarnation = r.revision
		c.self.Id = c.self.GetName() + "." + c.self.GetAddress() + "." + time.Now().String()
	}
	r.members[c.self.GetName()] = &memberRecord{c.self, now}
	view, leases := r.live(now), maps.Clone(r.leases)
	r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed, c.view, c.leases = now, view, leases
	return nil
}

// refresh reads the members and leases. The caller must hold the registry's lock.
func (c *client) refresh(now time.Time) {
	view, leases := c.registry.live(now), maps.Clone(c.registry.leases)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view, c.leases = view, leases
}

// live returns the live members as the node knows them.
func (c *client) live() []*messages.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// fenced reports whether the node must no longer consider itself a member.
func (c *client) fenced(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.renewed) >= selfFence
}

// Holder implements deployment.Leases.
func (c *client) Holder(role string) (string, uint64) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.leases[role]
	if !ok || l.member == c.self.GetId() && now.Sub(c.renewed) >= selfFence {
		return "", 0
	}
	for _, m := range c.view {
		if m.GetId() == l.member {
			return l.name, l.term
		}
	}
	return "", 0
}

// Roles implements deployment.Leases.
func (c *client) Roles() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.leases))
}

// Acquire implements deployment.Leases.
func (c *client) Acquire(_ context.Context, role string) (bool, error) {
	now := c.now()
	if c.isDown() {
		return false, errUnavailable
	}
	if c.fenced(now) {
		return false, errors.New("this node is not a member at the moment")
	}
	r := c.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if record := r.members[c.self.GetName()]; record == nil || record.member.GetId() != c.self.GetId() ||
		now.Sub(record.renewed) >= silentFor {
		return false, errors.New("not a member")
	}
	if l, ok := r.leases[role]; ok {
		for _, m := range r.live(now) {
			if m.GetId() == l.member {
				c.refresh(now)
				return l.member == c.self.GetId(), nil
			}
		}
	}
	r.revision++
	l := lease{c.self.GetId(), c.self.GetName(), r.revision}
	r.leases[role] = l
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases = maps.Clone(c.leases)
	c.leases[role] = l
	return true, nil
}

// Release implements deployment.Leases.
func (c *client) Release(_ context.Context, role string, term uint64) error {
	if c.isDown() {
		return errUnavailable
	}
	r := c.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leases[role].term == term {
		delete(r.leases, role)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases = maps.Clone(c.leases); c.leases[role].term == term {
		delete(c.leases, role)
	}
	return nil
}

// Watch implements deployment.Store.
func (c *client) Watch(ctx context.Context, apply func(deployment.Change)) error {
	seen, synced := make(map[string]uint64), false
	for {
		if c.isDown() {
			return errUnavailable
		}
		r := c.registry
		r.mu.Lock()
		var changes []deployment.Change
		for _, name := range slices.Sorted(maps.Keys(r.deployments)) {
			if d := r.deployments[name]; seen[name] < d.revision {
				seen[name] = d.revision
				if d.spec != nil || synced {
					changes = append(
						changes,
						deployment.Change{Name: name, Spec: proto.CloneOf(d.spec), Revision: d.revision},
					)
				}
			}
		}
		next := r.changed
		r.mu.Unlock()
		for _, change := range changes {
			apply(change)
		}
		if !synced {
			synced = true
			apply(deployment.Change{Synced: true})
		}
		select {
		case <-next:
		case <-c.gone:
			return errUnavailable
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// record stores the digests of a deployment, as a node of the product does.
func (c *client) record(_ context.Context, name string, deploy uint64, weights, revision string) error {
	if c.isDown() {
		return errUnavailable
	}
	r := c.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	stored := r.deployments[name]
	if stored.spec == nil || stored.spec.GetDeploy() != deploy || stored.spec.GetRevisionDigest() != "" {
		return nil
	}
	spec := proto.CloneOf(stored.spec)
	spec.WeightsDigest, spec.RevisionDigest, spec.AskedRevision = weights, revision, stored.revision
	r.put(name, spec)
	return nil
}

// replicas returns the wanted number of replicas.
func (r *Registry) replicas(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.deployments[name].spec.GetReplicas())
}

// scale stores the number of replicas of a deployment that is still at a revision, for the planner.
func (c *client) scale(_ context.Context, name string, revision uint64, replicas uint32, _ string) error {
	if c.isDown() {
		return errUnavailable
	}
	r := c.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	stored := r.deployments[name]
	if stored.spec == nil || stored.revision != revision {
		return errors.New("changed since it was read")
	}
	spec := proto.CloneOf(stored.spec)
	spec.Replicas = proto.Uint32(replicas)
	r.put(name, spec)
	return nil
}
