package members

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
)

const (
	// DeploymentKind is the kind of virtual actors that Lookup finds: their identity is the model.
	DeploymentKind = "deployment"
	// DeploymentRole is the prefix of their leases.
	DeploymentRole = "deployment."

	deploymentActor = "node/deployments/"
)

// Lookup returns what tells a protoactor cluster where a virtual actor is: at the member that holds its lease.
func (m *Members) Lookup() cluster.IdentityLookup {
	return &lookup{members: m, cached: map[string]*actor.PID{}}
}

type lookup struct {
	members *Members
	cancel  func()

	mu     sync.Mutex
	cached map[string]*actor.PID // model -> what was answered, and protoactor keeps
}

// Setup implements cluster.IdentityLookup. When a lease changes hands, protoactor must ask again.
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

// Get implements cluster.IdentityLookup. It returns nil where nobody holds the lease.
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

// RemovePid implements cluster.IdentityLookup. Where an actor is, is the lease's to say.
func (l *lookup) RemovePid(*cluster.ClusterIdentity, *actor.PID) {}

// Shutdown implements cluster.IdentityLookup.
func (l *lookup) Shutdown() {
	if l.cancel != nil {
		l.cancel()
	}
}
