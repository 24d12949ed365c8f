package tree

import (
	_ "embed"
	"html/template"
	"net/http"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("tree").Parse(pageText))

// ServeHTTP answers with the tree: as a live page to a browser, else as text; ?format=text, json or dot chooses.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	format := req.URL.Query().Get("format")
	if format == "" && strings.Contains(req.Header.Get("Accept"), "text/html") {
		format = "html"
	}
	roots := r.Snapshot()
	var body []byte
	var err error
	switch format {
	case "", "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(Text(roots))
	case "json":
		w.Header().Set("Content-Type", "application/json")
		body, err = JSON(roots)
	case "dot":
		w.Header().Set("Content-Type", "text/vnd.graphviz; charset=utf-8")
		body = []byte(DOT(roots))
	case "html":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, Text(roots)) // the reader may leave
		return
	default:
		http.Error(w, "format "+format+" is not known; text, json and dot are", http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(body)
}
