package members

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
)

const (
	// DeploymentKind is the kind of the virtual actors that Lookup finds. Their identity is the
	// model's name.
	DeploymentKind = "deployment"
	// DeploymentRole is the prefix of their lease roles.
	DeploymentRole = "deployment."

	deploymentActor = "node/deployments/"
)

// Lookup returns the identity lookup of a protoactor cluster: a virtual actor runs on the member
// that holds its lease.
func (m *Members) Lookup() cluster.IdentityLookup {
	return &lookup{members: m, cached: map[string]*actor.PID{}}
}

type lookup struct {
	members *Members
	cancel  func()

	mu     sync.Mutex
	cached map[string]*actor.PID // model → PID that Get returned and protoactor caches
}

// Setup implements cluster.IdentityLookup. When the holder of a lease changes, it removes the PID
// from protoactor's cache.
func (l *lookup) Setup(c *cluster.Cluster, _ []string, _ bool) {
	l.cancel = l.members.Subscribe(func(change Change) {
		if !change.LeasesChanged {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for model, pid := range l.cached {
			if !pid.Equal(l.find(model)) {
				c.PidCache.Remove(model, DeploymentKind)
				delete(l.cached, model)
			}
		}
	})
}

// Get implements cluster.IdentityLookup. It returns nil if the lease has no holder.
func (l *lookup) Get(id *cluster.ClusterIdentity) *actor.PID {
	if id.GetKind() != DeploymentKind {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pid := l.find(id.GetIdentity())
	if pid != nil {
		l.cached[id.GetIdentity()] = pid
	}
	return pid
}

func (l *lookup) find(model string) *actor.PID {
	holder, _, ok := l.members.Holder(DeploymentRole + model)
	if !ok {
		return nil
	}
	return actor.NewPID(holder.GetAddress(), deploymentActor+model)
}

// RemovePid implements cluster.IdentityLookup. It does nothing, since the lease determines the PID.
func (l *lookup) RemovePid(*cluster.ClusterIdentity, *actor.PID) {}

// Shutdown implements cluster.IdentityLookup.
func (l *lookup) Shutdown() {
	if l.cancel != nil {
		l.cancel()
	}
}
