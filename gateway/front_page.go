package gateway

import (
	"bytes"
	"cmp"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"

	"troupe/docs"
	"troupe/gateway/openai"
	"troupe/messages"
)

// pageLink is an entry of a page of links.
type pageLink struct {
	Path  string `json:"path"`
	About string `json:"about"`
}

// frontLinks are the entry points of a node, for people and programs.
var frontLinks = []pageLink{
	{"/v1/models", "models and adapters of this cluster; the base path of the OpenAI API is /v1"},
	{"/tree", "the live supervision tree of all nodes"},
	{"/metrics", "metrics for Prometheus"},
	{"/ready", "readiness of this node"},
	{"/docs/", "documentation of this version"},
}

// frontPage serves GET / as HTML to browsers and as JSON to programs. It contains only paths, so it
// needs no key.
func (g *Gateway) frontPage(w http.ResponseWriter, r *http.Request) {
	info := newRequestInfo(r, "front")
	if !wantsHTML(r) {
		g.respondJSON(w, info, http.StatusOK, map[string]any{"name": "troupe", "links": frontLinks})
		return
	}
	g.linkPage(w, info, "Troupe", frontLinks)
}

// docsIndex lists the pages of the documentation.
func (g *Gateway) docsIndex(w http.ResponseWriter, r *http.Request) {
	info := newRequestInfo(r, "docs")
	var links []pageLink
	err := fs.WalkDir(docs.Pages, ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			links = append(links, pageLink{"/docs/" + name, docTitle(name)})
		}
		return err
	})
	if err != nil {
		g.respondError(w, info, asError(err))
		return
	}
	slices.SortStableFunc(links, func(a, b pageLink) int {
		return cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/"))
	})
	if !wantsHTML(r) {
		g.respondJSON(w, info, http.StatusOK, map[string]any{"name": "troupe", "links": links})
		return
	}
	g.linkPage(w, info, "Troupe: documentation", links)
}

// docsPage serves one page of the documentation as Markdown.
func (g *Gateway) docsPage(w http.ResponseWriter, r *http.Request) {
	info := newRequestInfo(r, "docs")
	text, err := fs.ReadFile(docs.Pages, path.Clean(r.PathValue("page")))
	if err != nil {
		g.respondError(w, info, openai.Refusal(messages.Reason_REASON_NOT_FOUND, "no such page; GET /docs/ lists them"))
		return
	}
	g.recordResponse(info, http.StatusOK)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text) // fails if the client has left
}

// docTitle returns the first heading of a page.
func docTitle(name string) string {
	text, _ := fs.ReadFile(docs.Pages, name) // cannot fail: it is embedded
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(strings.TrimLeft(line, "#"))
}

// wantsHTML reports whether a request accepts HTML, as those of browsers do.
func wantsHTML(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

var linkPageTemplate = template.Must(template.New("front").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
body {
	font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem;
	color: #222; background: #fff
}
dt { margin-top: 1rem } dd { margin: 0; color: #555 } a { color: #0a58ca }
@media (prefers-color-scheme: dark) {
	body { color: #ddd; background: #181818 } dd { color: #aaa } a { color: #8ab4f8 }
}
</style>
<h1>{{.Title}}</h1>
<p>Troupe serves many language models on a shared pool of GPUs.</p>
<dl>{{range .Links}}
<dt><a href="{{.Path}}">{{.Path}}</a></dt><dd>{{.About}}</dd>{{end}}
</dl>
`))

// linkPage serves an HTML page of links.
func (g *Gateway) linkPage(w http.ResponseWriter, info requestInfo, title string, links []pageLink) {
	var page bytes.Buffer
	err := linkPageTemplate.Execute(&page, struct {
		Title string
		Links []pageLink
	}{title, links})
	if err != nil {
		g.respondError(w, info, asError(err))
		return
	}
	g.recordResponse(info, http.StatusOK)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(page.Bytes()) // fails if the client has left
}
