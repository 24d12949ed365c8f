package router

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/kv"
	"troupe/core/route"
	"troupe/messages"
)

// onRouteSequence answers with the replica that serves a request soonest, or with a refusal.
func (r *router) onRouteSequence(ctx actor.Context, msg *messages.RouteSequence) {
	t := r.models[msg.GetModel()]
	var decision route.Decision
	if t != nil && (r.Cache.Find(msg.GetModel()) != nil || !r.storeSynced) {
		decision = t.routes.Route(route.Request{
			ID: msg.GetRequestId(), Hashes: t.fingerprints(msg), Tokens: len(msg.GetPrompt()),
			Avoid:   r.avoided(t, msg.GetAvoid()),
			Adapter: msg.GetAdapterSpec().Key(), Revision: msg.GetRevisionDigest(),
		})
	}
	if !decision.OK {
		refused := r.noRouteRefusal(msg.GetModel())
		if t != nil && r.weightsReplaced(msg, t) {
			refused = &messages.Refused{
				Reason: messages.Reason_REASON_WEIGHTS_DIFFER,
				Detail: "the weights of model " + msg.GetModel() +
					" were replaced while the request ran; send it again",
			}
		}
		r.decisions.add(msg.GetRequestId(), logEntry{time: time.Now(), decision: decision, refused: refused,
			cause: msg.GetCause()})
		ctx.Respond(&messages.RouteSequenceResult{RequestId: msg.GetRequestId(),
			Outcome: &messages.RouteSequenceResult_Refused{Refused: refused}})
		return
	}
	r.decisions.add(msg.GetRequestId(), logEntry{time: time.Now(), decision: decision, cause: msg.GetCause()})
	to := t.replicas[decision.Name]
	ctx.Respond(&messages.RouteSequenceResult{RequestId: msg.GetRequestId(),
		Outcome: &messages.RouteSequenceResult_Routed{
			Routed: &messages.SequenceRouted{
				Replica: decision.Name, Actor: to.status.GetActor(), Incarnation: to.status.GetIncarnation(),
				Node: to.node,
			},
		}})
}

// weightsReplaced reports whether the files that computed a request's output are neither served nor
// deployed any longer.
func (r *router) weightsReplaced(msg *messages.RouteSequence, t *modelRoutes) bool {
	outputRevision, stored := msg.GetRevisionDigest(), r.Cache.Find(msg.GetModel()).GetSpec()
	return outputRevision != "" && stored.GetRevisionDigest() != "" && stored.GetRevisionDigest() != outputRevision &&
		!t.routes.HasRevision(outputRevision)
}

// avoided returns the replicas that a request goes to only if no other one serves: those that its
// session lost, and those on silent or leaving nodes. A silent replica on a live node is busy;
// rerouting its sequences would only add load.
func (r *router) avoided(t *modelRoutes, lost []string) []string {
	all := slices.Clone(lost)
	for name, m := range t.replicas {
		if r.leaving[m.node] || r.peers[m.node].isSilent() {
			all = append(all, name)
		}
	}
	return all
}

// fingerprints returns the fingerprints of a prompt's blocks, as replicas announce them.
func (t *modelRoutes) fingerprints(msg *messages.RouteSequence) []uint64 {
	blockTokens := 0
	for _, m := range t.replicas {
		blockTokens = int(m.status.GetBlockTokens())
		break // all replicas of a model have the same block size
	}
	if blockTokens == 0 {
		return nil
	}
	return kv.Fingerprints(kv.Hashes(kv.Root(msg.GetModel(), msg.GetAdapterSpec().Key(), msg.GetCacheSalt()),
		msg.GetPrompt(), blockTokens))
}

// noRouteRefusal returns the refusal of a request that no replica serves. NOT_READY is temporary,
// all others are final as far as is known.
func (r *router) noRouteRefusal(model string) *messages.Refused {
	soon := durationpb.New(routeRetryAfter)
	switch s := r.deploymentStatus[model]; {
	case !r.storeSynced:
		return &messages.Refused{Reason: messages.Reason_REASON_NOT_READY, Detail: "this node is starting",
			RetryAfter: soon}
	case r.Cache.Find(model) == nil:
		return &messages.Refused{
			Reason: messages.Reason_REASON_NOT_FOUND,
			Detail: fmt.Sprintf("model %q is not deployed; there are: %s", model,
				strings.Join(r.Cache.names(), ", ")),
		}
	case r.Cache.Find(model).GetSpec().Stopped():
		return &messages.Refused{
			Reason: messages.Reason_REASON_STOPPED,
			Detail: fmt.Sprintf(`model %s is stopped (0 replicas); models.scale {"name": %q, "replicas": 1} starts it`,
				model, model),
		}
	case s.GetFailure() != nil && s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_FAILED:
		return s.GetFailure()
	}
	return &messages.Refused{Reason: messages.Reason_REASON_NOT_READY, Detail: "model " + model + " is starting",
		RetryAfter: soon}
}

// onGetDeployment answers with the status of a deployment.
func (r *router) onGetDeployment(ctx actor.Context, msg *messages.GetDeployment) {
	if r.Cache.Find(msg.GetName()) == nil && r.deploymentStatus[msg.GetName()] == nil {
		ctx.Respond(r.noRouteRefusal(msg.GetName()))
		return
	}
	ctx.Respond(r.status(msg.GetName()))
}

// status combines the stored spec, the status that the leader announced, and the announced
// replicas.
func (r *router) status(name string) *messages.DeploymentStatus {
	s := &messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{Name: name}, State: messages.DeploymentState_DEPLOYMENT_STATE_PENDING,
		Detail: "no node leads it yet",
	}
	if a := r.Cache.Find(name); a != nil {
		s.Spec, s.Revision = a.GetSpec(), a.GetRevision()
	}
	if announced := r.deploymentStatus[name]; announced != nil {
		s.State, s.Detail, s.Failure = announced.GetState(), announced.GetDetail(), announced.GetFailure()
		s.Node, s.Term = announced.GetNode(), announced.GetTerm()
		if r.Cache.Find(name) == nil {
			s.Spec, s.Revision = announced.GetSpec(), announced.GetRevision()
		}
	}
	if t := r.models[name]; t != nil {
		for _, m := range t.replicas {
			s.Replicas = append(s.Replicas, m.status)
		}
	}
	s.Weights, s.RevisionShort = shortDigest(s.GetSpec().GetWeightsDigest()),
		shortDigest(s.GetSpec().GetRevisionDigest())
	slices.SortFunc(s.Replicas, func(a, b *messages.ReplicaStatus) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
	s.Squeezed = messages.Squeezed(s.GetReplicas())
	return s
}

// shortDigest returns the first digits of a digest.
func shortDigest(digest string) string { return digest[:min(len(digest), 12)] }

// clusterView returns everything that the router knows.
func (r *router) clusterView() *messages.ClusterView {
	all := &messages.ClusterView{Sessions: map[string]uint32{r.Node: uint32(r.Sessions())}}
	names := make(map[string]bool)
	for _, name := range r.Cache.names() {
		names[name] = true
	}
	for name := range r.deploymentStatus {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all.Deployments = append(all.Deployments, r.status(name))
	}
	for _, model := range slices.Sorted(maps.Keys(r.models)) {
		t := r.models[model]
		for _, name := range slices.Sorted(maps.Keys(t.replicas)) {
			all.Replicas = append(all.Replicas, t.replicas[name].status)
		}
	}
	for node, p := range r.peers {
		all.Sessions[node] = p.sessions
	}
	return all
}
