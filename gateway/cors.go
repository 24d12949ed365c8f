package gateway

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/rs/cors"

	"troupe/gateway/openai"
	"troupe/messages"
)

// AllowHosts refuses requests whose Host is not this node, to prevent DNS rebinding: an attacker's
// page resolves its own name to this node's address, and the browser treats the node as part of
// that page. It allows localhost, names, and IP addresses, which cannot be rebound.
func (g *Gateway) AllowHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isKnownHost(r.Host, names) {
			e := openai.Refusal(messages.Reason_REASON_FORBIDDEN, fmt.Sprintf(
				"the host %q is not a name of this node; use localhost or an IP address, "+
					"or add the name to --allowed-hosts", r.Host))
			c := caller{id: setRequestID(g.cfg.Runtime, w, r), remote: r.RemoteAddr}
			g.respondError(w, requestInfo{caller: c, endpoint: "refused"}, e)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isKnownHost reports whether a Host header names this node. Requests without one are HTTP/1.0,
// which browsers do not use.
func isKnownHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// corsHandler returns a handler that lets pages of the listed origins use the API, and the check
// that refuses unsafe requests from other pages. Browsers hide the responses to safe requests from
// those pages.
func corsHandler(listed []string, next http.Handler) (http.Handler, *http.CrossOriginProtection, error) {
	check := http.NewCrossOriginProtection()
	if len(listed) == 0 {
		return next, check, nil
	}
	for _, o := range listed {
		if err := check.AddTrustedOrigin(o); err != nil {
			return nil, nil, err
		}
	}
	return cors.New(cors.Options{
		AllowOriginFunc: func(o string) bool { return slices.Contains(listed, o) },
		AllowedMethods:  []string{http.MethodGet, http.MethodPost},
		AllowedHeaders:  []string{"*"}, // clients of OpenAI send many of their own
		ExposedHeaders:  []string{"X-Request-Id", "Retry-After"},
		MaxAge:          600,
	}).Handler(next), check, nil
}

// crossOriginError returns the error for a page that may not use the node.
func crossOriginError(r *http.Request) *openai.Error {
	from := r.Header.Get("Origin")
	if from == "" {
		from = "another site"
	}
	return openai.Refusal(messages.Reason_REASON_FORBIDDEN, fmt.Sprintf(
		"pages of %s may not use this node; add the origin to --allowed-origins", from))
}

// requireJSON refuses a body without the content type of JSON. Browsers send other types
// cross-origin without a preflight request.
func requireJSON(r *http.Request) *openai.Error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/json" {
		return nil
	}
	e := openai.Invalid("", "the request must have the header Content-Type: application/json")
	e.Status = http.StatusUnsupportedMediaType
	return e
}

// isFromBrowser reports whether a page sent a request. Only pages must set the content type to JSON:
// curl sets the content type of a form by default.
func isFromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}
