package router

import (
	"maps"
	"slices"

	core "troupe/core/router"
	"troupe/messages"
)

// reports holds the messages about the replicas and deployments that the machine knows. They answer
// queries; no decision depends on them.
type reports struct {
	replicas    map[string]map[string]*messages.ReplicaStatus // by model and name
	deployments map[string]*messages.DeploymentStatus         // by name, as announced by the leader
	demand      gateways
}

func newReports() reports {
	return reports{
		replicas:    make(map[string]map[string]*messages.ReplicaStatus),
		deployments: make(map[string]*messages.DeploymentStatus),
		demand:      make(gateways),
	}
}

func (r reports) keepReplica(e core.KeepReplica, status *messages.ReplicaStatus) {
	if r.replicas[e.Model] == nil {
		r.replicas[e.Model] = make(map[string]*messages.ReplicaStatus)
	}
	r.replicas[e.Model][e.Name] = status
}

func (r reports) dropReplica(e core.DropReplica) { delete(r.replicas[e.Model], e.Name) }

// replicaStatus returns the status of a replica in a message.
func replicaStatus(message any, at int) *messages.ReplicaStatus {
	if msg, ok := message.(*messages.RoutesAnnounced); ok {
		return msg.GetReplicas()[at].GetStatus()
	}
	return message.(*messages.ReplicaAnnounced).GetStatus()
}

// deploymentStatus returns the status of a deployment in a message.
func deploymentStatus(message any, at int) *messages.DeploymentStatus {
	if msg, ok := message.(*messages.RoutesAnnounced); ok {
		return msg.GetDeployments()[at]
	}
	return message.(*messages.RouteDeployment).GetStatus()
}

// status combines the stored spec, the status that the leader announced, and the announced
// replicas, without the demand.
func (r reports) status(name string, cache *DeploymentCache) *messages.DeploymentStatus {
	s := &messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{Name: name}, State: messages.DeploymentState_DEPLOYMENT_STATE_PENDING,
		Detail: "no node leads it yet",
	}
	stored := cache.Find(name)
	if stored != nil {
		s.Spec, s.Revision = stored.GetSpec(), stored.GetRevision()
	}
	if announced := r.deployments[name]; announced != nil {
		s.State, s.Detail, s.Failure = announced.GetState(), announced.GetDetail(), announced.GetFailure()
		s.Node, s.Term, s.WaitingToWake = announced.GetNode(), announced.GetTerm(), announced.GetWaitingToWake()
		s.Preemptions, s.Assigned, s.Need = announced.GetPreemptions(), announced.GetAssigned(), announced.GetNeed()
		s.Wakes, s.OldestWaiting = announced.GetWakes(), announced.GetOldestWaiting()
		if stored == nil {
			s.Spec, s.Revision = announced.GetSpec(), announced.GetRevision()
		}
	}
	s.Weights, s.RevisionShort = shortDigest(s.GetSpec().GetWeightsDigest()),
		shortDigest(s.GetSpec().GetRevisionDigest())
	s.Replicas = r.ofModel(name)
	s.Squeezed = messages.Squeezed(s.GetReplicas())
	s.Unsupported = unsupported(s)
	return s
}

// ofModel returns the replicas of a model, by name.
func (r reports) ofModel(model string) (all []*messages.ReplicaStatus) {
	for _, name := range slices.Sorted(maps.Keys(r.replicas[model])) {
		all = append(all, r.replicas[model][name])
	}
	return all
}

// shortDigest returns the first characters of a digest.
func shortDigest(digest string) string { return digest[:min(len(digest), 12)] }

// clusterView returns everything that the router knows, without the demand.
func (r *router) clusterView() *messages.ClusterView {
	all := &messages.ClusterView{
		Sessions: map[string]uint32{r.Node: uint32(r.Sessions())}, Waiting: make(map[string]uint32),
	}
	for model, n := range r.machine.Waiting() {
		all.Waiting[model] = uint32(n)
	}
	for node, n := range r.machine.Sessions() {
		all.Sessions[node] = uint32(n)
	}
	names := slices.Collect(maps.Keys(r.reports.deployments))
	for _, stored := range r.Cache.All() {
		names = append(names, stored.GetSpec().GetName())
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		all.Deployments = append(all.Deployments, r.reports.status(name, r.Cache))
	}
	for _, model := range slices.Sorted(maps.Keys(r.reports.replicas)) {
		all.Replicas = append(all.Replicas, r.reports.ofModel(model)...)
	}
	return all
}
