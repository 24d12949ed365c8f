package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"troupe/core/backend"
	"troupe/gateway/openai"
	"troupe/messages"
)

// respondJSON responds with a value as JSON.
func (g *Gateway) respondJSON(w http.ResponseWriter, info requestInfo, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		e := openai.Refusal(messages.Reason_REASON_INTERNAL, err.Error())
		status, body = e.Status, e.JSON()
	}
	g.respond(w, info, status, body)
}

func (g *Gateway) respond(w http.ResponseWriter, info requestInfo, status int, body []byte) {
	g.recordResponse(info, status)
	writeJSONBody(w, status, body)
}

// modelObject is an entry of /v1/models. Root, Parent and ContextTokens are vLLM's extensions, Simulated is ours.
// Parent is set for adapters. Root is a name, since a path would reveal details of the host.
type modelObject struct {
	ID            string  `json:"id"`
	Object        string  `json:"object"`
	Created       int64   `json:"created"`
	OwnedBy       string  `json:"owned_by"`
	Root          string  `json:"root"`
	Parent        *string `json:"parent"`
	ContextTokens int     `json:"max_model_len,omitempty"`
	Simulated     bool    `json:"simulated,omitempty"` // nothing computes its text
}

func (g *Gateway) modelObject(ctx context.Context, d *messages.DeploymentStatus) modelObject {
	o := modelObject{ID: d.GetSpec().GetName(), Object: "model", OwnedBy: "troupe", Root: d.GetSpec().GetName()}
	o.Simulated = engineOf(d.GetSpec()).Kind == backend.Simulated
	if m, err := g.models.get(ctx, d); err == nil {
		o.Created, o.ContextTokens = m.created.Unix(), m.context
	}
	return o
}

func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) {
	info := newRequestInfo(r, "models")
	all, err := g.deployments(r.Context())
	if err != nil {
		g.respondError(w, info, asError(err))
		return
	}
	list := make([]modelObject, 0, len(all))
	for _, d := range all {
		if info.mayUse(d.GetSpec().GetName()) {
			list = append(list, g.modelObject(r.Context(), d))
		}
	}
	list = append(list, g.adapterObjects(info.caller, all)...)
	g.respondJSON(w, info, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (g *Gateway) getModel(w http.ResponseWriter, r *http.Request) {
	info := newRequestInfo(r, "models")
	name := r.PathValue("model")
	d, adapter, err := g.lookUp(r.Context(), name)
	if err != nil {
		g.respondError(w, info, asError(err))
		return
	}
	info.model, info.adapter = d.GetSpec().GetName(), adapter.GetName()
	if adapter != nil {
		g.respondJSON(w, info, http.StatusOK, adapterObject(name, adapter))
		return
	}
	g.respondJSON(w, info, http.StatusOK, g.modelObject(r.Context(), d))
}
