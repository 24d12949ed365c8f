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

// onRoute answers with the replica that serves a request the soonest, or with why none does.
func (r *router) onRoute(ctx actor.Context, msg *messages.RouteSequence) {
	t := r.models[msg.GetModel()]
	var decision route.Decision
	if t != nil && (r.Stored.Find(msg.GetModel()) != nil || !r.synced) {
		decision = t.routes.Route(route.Request{
			ID: msg.GetRequestId(), Hashes: t.hashes(msg), Tokens: len(msg.GetPrompt()), Avoid: r.shunned(t, msg.GetAvoid()),
			Adapter: msg.GetAdapterSpec().Key(), Revision: msg.GetRevisionDigest(),
		})
	}
	if !decision.OK {
		refused := r.unroutable(msg.GetModel())
		if t != nil && r.replaced(msg, t) {
			refused = &messages.Refused{
				Reason: messages.Reason_REASON_WEIGHTS_DIFFER,
				Detail: "the weights of model " + msg.GetModel() + " were replaced while the request ran; send it again",
			}
		}
		r.memory.add(msg.GetRequestId(), record{time: time.Now(), decision: decision, refused: refused, cause: msg.GetCause()})
		ctx.Respond(&messages.RouteSequenceResult{RequestId: msg.GetRequestId(), Outcome: &messages.RouteSequenceResult_Refused{Refused: refused}})
		return
	}
	r.memory.add(msg.GetRequestId(), record{time: time.Now(), decision: decision, cause: msg.GetCause()})
	to := t.replicas[decision.Name]
	ctx.Respond(&messages.RouteSequenceResult{RequestId: msg.GetRequestId(), Outcome: &messages.RouteSequenceResult_Routed{
		Routed: &messages.SequenceRouted{
			Replica: decision.Name, Actor: to.status.GetActor(), Incarnation: to.status.GetIncarnation(), Node: to.node,
		},
	}})
}

// replaced reports whether what computed a request's output is not served any more, and is not going to be.
func (r *router) replaced(msg *messages.RouteSequence, t *table) bool {
	begun, stored := msg.GetRevisionDigest(), r.Stored.Find(msg.GetModel()).GetSpec()
	return begun != "" && stored.GetRevisionDigest() != "" && stored.GetRevisionDigest() != begun && !t.routes.HasRevision(begun)
}

// shunned are the replicas that a request goes to only where no other serves: those that its session has lost, and all on nodes that say
// nothing, or are about to end. One that is silent on a node that is heard from is busy: to have its sequences computed anew elsewhere would make everybody busier.
func (r *router) shunned(t *table, lost []string) []string {
	all := slices.Clone(lost)
	for name, m := range t.replicas {
		if r.leaving[m.node] || r.peers[m.node].mute() {
			all = append(all, name)
		}
	}
	return all
}

// hashes are the blocks of a prompt, as they are announced.
func (t *table) hashes(msg *messages.RouteSequence) []uint64 {
	blockTokens := 0
	for _, m := range t.replicas {
		blockTokens = int(m.status.GetBlockTokens())
		break // all replicas of a model are alike
	}
	if blockTokens == 0 {
		return nil
	}
	return kv.Fingerprints(kv.Hashes(kv.Root(msg.GetModel(), msg.GetAdapterSpec().Key(), msg.GetCacheSalt()), msg.GetPrompt(), blockTokens))
}

// unroutable says why no replica serves: for good, as far as is known, or for a moment.
func (r *router) unroutable(model string) *messages.Refused {
	soon := durationpb.New(retryAfter)
	switch s := r.led[model]; {
	case !r.synced:
		return &messages.Refused{Reason: messages.Reason_REASON_NOT_READY, Detail: "this node is starting", RetryAfter: soon}
	case r.Stored.Find(model) == nil:
		return &messages.Refused{
			Reason: messages.Reason_REASON_NOT_FOUND,
			Detail: fmt.Sprintf("model %q is not deployed; there are: %s", model, strings.Join(r.Stored.names(), ", ")),
		}
	case r.Stored.Find(model).GetSpec().Stopped():
		return &messages.Refused{
			Reason: messages.Reason_REASON_STOPPED,
			Detail: fmt.Sprintf(`model %s is stopped: it is deployed with 0 replicas; models.scale {"name": %q, "replicas": 1} starts it`, model, model),
		}
	case s.GetFailure() != nil && s.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_FAILED:
		return s.GetFailure()
	}
	return &messages.Refused{Reason: messages.Reason_REASON_NOT_READY, Detail: "model " + model + " is starting", RetryAfter: soon}
}

// onGet answers how a deployment is.
func (r *router) onGet(ctx actor.Context, msg *messages.GetDeployment) {
	if r.Stored.Find(msg.GetName()) == nil && r.led[msg.GetName()] == nil {
		ctx.Respond(r.unroutable(msg.GetName()))
		return
	}
	ctx.Respond(r.status(msg.GetName()))
}

// status is what is stored, what its actor says, and the replicas as they announced themselves.
func (r *router) status(name string) *messages.DeploymentStatus {
	s := &messages.DeploymentStatus{
		Spec: &messages.DeploymentSpec{Name: name}, State: messages.DeploymentState_DEPLOYMENT_STATE_PENDING,
		Detail: "no node has taken it up yet",
	}
	if a := r.Stored.Find(name); a != nil {
		s.Spec, s.Revision = a.GetSpec(), a.GetRevision()
	}
	if led := r.led[name]; led != nil {
		s.State, s.Detail, s.Node, s.Term, s.Failure = led.GetState(), led.GetDetail(), led.GetNode(), led.GetTerm(), led.GetFailure()
		if r.Stored.Find(name) == nil {
			s.Spec, s.Revision = led.GetSpec(), led.GetRevision()
		}
	}
	if t := r.models[name]; t != nil {
		for _, m := range t.replicas {
			s.Replicas = append(s.Replicas, m.status)
		}
	}
	s.Weights, s.RevisionShort = short(s.GetSpec().GetWeightsDigest()), short(s.GetSpec().GetRevisionDigest())
	slices.SortFunc(s.Replicas, func(a, b *messages.ReplicaStatus) int { return cmp.Compare(a.GetName(), b.GetName()) })
	s.Squeezed = messages.Squeezed(s.GetReplicas())
	return s
}

// short returns the first digits of a digest.
func short(digest string) string { return digest[:min(len(digest), 12)] }

// table is everything that the router knows.
func (r *router) table() *messages.Table {
	all := &messages.Table{Sessions: map[string]uint32{r.Node: uint32(r.Sessions())}}
	names := make(map[string]bool)
	for _, name := range r.Stored.names() {
		names[name] = true
	}
	for name := range r.led {
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
