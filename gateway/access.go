package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"troupe/gateway/apikey"
	"troupe/gateway/openai"
	"troupe/messages"
)

// open are the routes that need no key: probes have none, and the front page and the docs are the same everywhere.
var publicRoutes = map[string]bool{
	"GET /live": true, "GET /health": true, "GET /ready": true,
	"GET /{$}": true, "GET /docs/{$}": true, "GET /docs/{page...}": true,
}

// admins are the routes that tell about all models, or change them; so are Config.Routes.
var adminRoutes = map[string]bool{
	"GET /metrics":                 true,
	"POST /v1/load_lora_adapter":   true,
	"POST /v1/unload_lora_adapter": true,
}

// caller identifies the client of a request.
type caller struct {
	id, remote string
	address    string      // that the client is known by where no key is asked for
	key        *apikey.Key // nil: none was asked for
	account    string      // the NATS account, where a trusted server names it
	began      time.Time
}

// tenant returns the name that separates cached prefixes: the key's tenant, or the NATS account. It is empty where
// clients are not told apart.
func (c caller) tenant() string {
	switch {
	case c.key != nil:
		return c.key.Tenant
	case c.account != "":
		return "nats:" + c.account
	}
	return ""
}

type callerKey struct{}

// callerFrom returns the client of a request. Over NATS it is an account at most: its permissions decide what may be asked.
func callerFrom(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// presentedKey returns the key that a request shows: as a bearer, or from a browser that looks at a page as the password.
func presentedKey(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(secret)
	}
	if _, password, ok := r.BasicAuth(); ok && r.Method == http.MethodGet {
		return password
	}
	return ""
}

// unauthorized is the answer to a request without a key that is known. A browser asks its user for one.
func unauthorized(w http.ResponseWriter, r *http.Request) *openai.Error {
	w.Header().Add("WWW-Authenticate", `Bearer realm="Troupe"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="Troupe: the password is an API key"`)
	e := openai.Invalid("", "the API key is not known here; ask whoever runs this server for one")
	if r.Header.Get("Authorization") == "" {
		e.Message = "an API key is needed: send it in the header Authorization: Bearer KEY"
	}
	code := "invalid_api_key"
	e.Status, e.Code = http.StatusUnauthorized, &code
	return e
}

// admin reports whether the caller may see and change what all models share. Without keys everybody
// may.
func (c caller) isAdmin(keys bool) bool { return !keys || c.key != nil && c.key.Admin }

// adminRequired is the answer to a key that may use models alone.
func adminRequired() *openai.Error {
	return openai.Refusal(
		messages.Reason_REASON_FORBIDDEN,
		"this API key is not an admin's; add admin: true to its line "+
			"in the file of keys, or make one with \"troupe keys new --admin\"",
	)
}

// may reports whether the caller may use a model.
func (c caller) mayUse(model string) bool { return c.key == nil || c.key.Allows(model) }

// mayUseAdapter reports whether the caller may use an adapter. To use its base model is something else.
func (c caller) mayUseAdapter(a *messages.AdapterSpec) bool {
	return c.key == nil || c.key.AllowsAdapter(a.GetModel(), a.GetName())
}

// deployment looks a model up for a caller. One that its key may not use is not there, like one
// that is not deployed; neither is looked for, so that time does not tell which it is.
func (g *Gateway) deployment(ctx context.Context, model string) (*messages.DeploymentStatus, error) {
	c := callerFrom(ctx)
	if !c.mayUse(model) {
		return nil, modelNotFound(model)
	}
	d, err := g.cfg.Directory.Deployment(ctx, model)
	if c.key != nil && isNotFound(err) {
		return nil, modelNotFound(model) // the directory's own words may name other models
	}
	return d, err
}

func modelNotFound(model string) *openai.Error {
	return openai.Refusal(
		messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("model %q is not deployed, or this API key may not use it; see /v1/models", model),
	)
}

// asked is what a request is counted and logged under. The model is one that exists, so that the label's values are bounded.
type asked struct {
	caller
	endpoint, model string
	adapter         string // logged, not counted: there may be thousands
	object          string // for the audit
}

func askedBy(r *http.Request, endpoint string) asked {
	return asked{caller: callerFrom(r.Context()), endpoint: endpoint}
}

// Answers to unknown callers are logged at most so often; the metrics count all of them.
const (
	refusalLogRate  = 2 // a second
	refusalLogBurst = 10
)

// answered counts and logs an answer. Whoever gave keys out wants to know who asked.
func (g *Gateway) answered(a asked, status int) {
	g.metrics.answered(a, status)
	g.audit(a, status)
	line := g.cfg.Log.Debug()
	if a.key != nil {
		line = g.cfg.Log.Info()
	} else if status == http.StatusUnauthorized {
		ok, leftOut := g.refusals.Allow()
		if !ok {
			return
		}
		line = g.cfg.Log.Info().Uint64("left_out", leftOut)
	}
	if a.key != nil {
		line.Str("key", a.key.Name)
	}
	if a.account != "" {
		line.Str("account", a.account)
	}
	if a.adapter != "" {
		line.Str("adapter", a.adapter)
	}
	line.Str("endpoint", a.endpoint).
		Str("model", a.model).
		Int("status", status).
		Str("request", a.id).
		Str("remote", a.remote).
		Msg("answered")
}
