package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"troupe/core/schedule"
	"troupe/gateway/openai"
	"troupe/messages"
)

// modelReadiness is the response to a probe of one model.
type modelReadiness struct {
	Ready  bool    `json:"ready"`
	Causes []Cause `json:"causes"`
	Model  string  `json:"model"`
	State  string  `json:"state"` // see modelState
	Detail string  `json:"detail,omitempty"`
}

// modelReady responds with 200 when this node accepts requests for a model or an adapter, and with
// 503 and its state otherwise. A key that may not use the model gets the response for a model that
// is not deployed.
func (g *Gateway) modelReady(w http.ResponseWriter, r *http.Request, info requestInfo) {
	if g.cfg.Keys != nil && info.key == nil {
		info.endpoint, info.object = "unauthorized", r.Method+" "+r.URL.Path
		g.respondError(w, info, unauthorized(w, r))
		return
	}
	name := r.URL.Query().Get("model")
	state := modelReadiness{Model: name, Causes: g.causes()}
	d, err := g.findStatus(r.Context(), name)
	switch {
	case err != nil && asError(err).Status < http.StatusInternalServerError:
		g.respondError(w, info, asError(err))
		return
	case err != nil:
		g.cfg.Log.Debug().Err(err).Msg("reading deployments for a probe failed")
		state.Causes, state.State = append(state.Causes, CauseStarting), "unknown"
	default:
		info.model = d.GetSpec().GetName()
		state.State = modelState(d)
		if serving(d) == 0 && restOf(d) != schedule.Asleep {
			state.Causes = append(state.Causes, CauseModel)
			state.Detail = detailFor(info, d)
		}
	}
	state.Ready = len(state.Causes) == 0
	g.respondJSON(w, info, probeStatus(state.Ready), state)
}

// findStatus returns the status of the deployment of a model or an adapter.
func (g *Gateway) findStatus(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	base, _, err := g.lookUp(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := g.deployments(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(d *messages.DeploymentStatus) bool {
		return d.GetSpec().GetName() == base.GetSpec().GetName()
	})
	if i < 0 { // the deployment was just deleted
		return nil, modelNotFound(name)
	}
	return all[i], nil
}

// modelState returns the state of a deployment: by its replicas if any serve, otherwise as its
// actor reports.
func modelState(d *messages.DeploymentStatus) string {
	switch n, want := serving(d), int(d.GetSpec().Wanted()); {
	case want == 0 && n == 0 && d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_PARKED:
		return restOf(d).String()
	case n >= want, n > 0 && d.GetSpec().Held() && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY:
		return "ready" // the others are kept on standby
	case n > 0:
		return "degraded"
	}
	switch d.GetState() {
	case messages.DeploymentState_DEPLOYMENT_STATE_FAILED, messages.DeploymentState_DEPLOYMENT_STATE_STANDBY,
		messages.DeploymentState_DEPLOYMENT_STATE_PARKED, messages.DeploymentState_DEPLOYMENT_STATE_REMOVING:
		return strings.ToLower(strings.TrimPrefix(d.GetState().String(), "DEPLOYMENT_STATE_"))
	}
	// The actor has not noticed yet that the last replica is gone.
	return "pending"
}

func restOf(d *messages.DeploymentStatus) schedule.Rest { return schedule.RestOf(d.GetSpec().Bounds()) }

// detailFor returns why a model does not serve. Admins see the detail of its status, other clients
// the error that a request would return.
func detailFor(info requestInfo, d *messages.DeploymentStatus) string {
	switch {
	case d.GetSpec().Preempted():
		return "all replicas of the model were preempted; models.scale starts them"
	case d.GetSpec().GetReplicas() == 0:
		return "the model is scaled to 0 replicas; models.scale adds some"
	case info.key == nil || info.key.Admin || d.GetFailure() == nil:
		return withoutPaths(d.GetDetail())
	}
	var e *openai.Error = publicError(d.GetFailure())
	return e.Message
}
