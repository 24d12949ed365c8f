package tree

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"troupe/messages"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("tree").Parse(pageText))

// Read returns the root of each node, or of the named one. Unless whole is set, sessions without a
// failure are folded.
type Read func(ctx context.Context, node string, whole bool) ([]*messages.ActorNode, error)

// Handler serves the tree, as a live page to browsers and otherwise as text. ?format=text, json or
// dot selects a format, ?node= a single node.
func Handler(read Read) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		format := req.URL.Query().Get("format")
		if format == "" && strings.Contains(req.Header.Get("Accept"), "text/html") {
			format = "html"
		}
		roots, err := read(req.Context(), req.URL.Query().Get("node"), format == "json")
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		write(w, format, roots)
	})
}

// policy returns the content security policy of the page: its own script and style, and requests
// for the tree. No other page may frame it.
func policy(nonce string) string {
	return fmt.Sprintf("default-src 'none'; script-src 'nonce-%[1]s'; style-src 'nonce-%[1]s'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", nonce)
}

func write(w http.ResponseWriter, format string, roots []*messages.ActorNode) {
	kind, body := "text/plain", ""
	switch format {
	case "", "text":
		body = Text(roots)
	case "dot":
		kind, body = "text/vnd.graphviz", DOT(roots)
	case "json":
		b, err := JSON(roots)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		kind, body = "application/json", string(b)
	case "html":
		var b strings.Builder
		nonce := rand.Text()
		w.Header().Set("Content-Security-Policy", policy(nonce))
		if err := page.Execute(&b, struct{ Text, Nonce string }{Text(roots), nonce}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		kind, body = "text/html", b.String()
	default:
		http.Error(w, "format "+format+" is unknown; use text, json or dot", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", kind+"; charset=utf-8")
	_, _ = w.Write([]byte(body)) // the client may have disconnected
}
