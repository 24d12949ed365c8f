package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"troupe/gateway/apikey"
	"troupe/gateway/openai"
	"troupe/messages"
)

// publicRoutes require no key. Probes have none, and the front page and the docs contain no data of
// the cluster.
var publicRoutes = map[string]bool{
	"GET /live": true, "GET /health": true, "GET /ready": true,
	"GET /{$}": true, "GET /docs/{$}": true, "GET /docs/{page...}": true,
}

// adminRoutes read or change all models and require an admin's key, as do Config.Routes.
var adminRoutes = map[string]bool{
	"GET /metrics":                 true,
	"POST /v1/load_lora_adapter":   true,
	"POST /v1/unload_lora_adapter": true,
}

// caller is the client of a request.
type caller struct {
	id, remote string
	address    string      // identifies the client if no keys are required
	key        *apikey.Key // nil: no key is required
	account    string      // the NATS account; empty: not known
	started    time.Time
}

// tenant returns the tenant whose prefixes the caller shares: that of its key, or its NATS account.
// It is empty if clients are not distinguished.
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

// callerFrom returns the caller of a request. Over NATS it has at most an account; the server's
// permissions control its access.
func callerFrom(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// presentedKey returns the key in a request: a bearer token, or for GET requests the password of
// basic authentication, which browsers ask their users for.
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

// unauthorized returns the error for a request without a valid key. Its headers make a browser ask
// for one.
func unauthorized(w http.ResponseWriter, r *http.Request) *openai.Error {
	w.Header().Add("WWW-Authenticate", `Bearer realm="Troupe"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="Troupe: the password is an API key"`)
	e := openai.Invalid("", "the API key is not valid; ask the operator of this server for one")
	if r.Header.Get("Authorization") == "" {
		e.Message = "an API key is needed: send it in the header Authorization: Bearer KEY"
	}
	code := "invalid_api_key"
	e.Status, e.Code = http.StatusUnauthorized, &code
	return e
}

// isAdmin reports whether the caller may see and change state that all models share. Without keys
// every caller may.
func (c caller) isAdmin(keys bool) bool { return !keys || c.key != nil && c.key.Admin }

// adminRequired returns the error for a key that is not an admin's.
func adminRequired() *openai.Error {
	return openai.Refusal(messages.Reason_REASON_FORBIDDEN, "this API key is not an admin's; "+
		"add admin: true to its entry in the key file, or create one with \"troupe keys new --admin\"")
}

// mayUse reports whether the caller may use a model.
func (c caller) mayUse(model string) bool { return c.key == nil || c.key.Allows(model) }

// mayUseAdapter reports whether the caller may use an adapter. This is independent of its base
// model.
func (c caller) mayUseAdapter(a *messages.AdapterSpec) bool {
	return c.key == nil || c.key.AllowsAdapter(a.GetModel(), a.GetName())
}

// requestInfo is the information under which a request is counted and logged. The model is an
// existing one, which bounds the number of label values.
type requestInfo struct {
	caller
	endpoint, model string
	adapter         string // logged but not counted: there may be thousands
	object          string // for the audit log
}

func newRequestInfo(r *http.Request, endpoint string) requestInfo {
	return requestInfo{caller: callerFrom(r.Context()), endpoint: endpoint}
}
