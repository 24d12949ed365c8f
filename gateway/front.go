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

// frontLink is an address that the front page names.
type frontLink struct {
	Path  string `json:"path"`
	About string `json:"about"`
}

// frontLinks are the addresses of a node that people and programs start from.
var frontLinks = []frontLink{
	{"/v1/models", "models and adapters that this cluster serves; the base of the OpenAI API is /v1"},
	{"/tree", "the live supervision tree of all nodes"},
	{"/metrics", "metrics for Prometheus"},
	{"/ready", "whether this node takes requests"},
	{"/docs/", "documentation of this version"},
}

// front answers GET /: a page for browsers, and JSON for programs. It names addresses only, so it needs no key.
func (g *Gateway) front(w http.ResponseWriter, r *http.Request) {
	a := askedBy(r, "front")
	if !wantsHTML(r) {
		g.answer(w, a, http.StatusOK, map[string]any{"name": "troupe", "links": frontLinks})
		return
	}
	g.page(w, a, "Troupe", frontLinks)
}

// docsIndex lists the documentation.
func (g *Gateway) docsIndex(w http.ResponseWriter, r *http.Request) {
	a := askedBy(r, "docs")
	var links []frontLink
	err := fs.WalkDir(docs.Pages, ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			links = append(links, frontLink{"/docs/" + name, docTitle(name)})
		}
		return err
	})
	if err != nil {
		g.fail(w, a, asError(err))
		return
	}
	slices.SortStableFunc(links, func(a, b frontLink) int {
		return cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/"))
	})
	if !wantsHTML(r) {
		g.answer(w, a, http.StatusOK, map[string]any{"name": "troupe", "links": links})
		return
	}
	g.page(w, a, "Troupe: documentation", links)
}

// docsPage answers with one page of the documentation, as the Markdown that it is written in.
func (g *Gateway) docsPage(w http.ResponseWriter, r *http.Request) {
	a := askedBy(r, "docs")
	text, err := fs.ReadFile(docs.Pages, path.Clean(r.PathValue("page")))
	if err != nil {
		g.fail(w, a, openai.Refusal(messages.Reason_REASON_NOT_FOUND, "no such page; GET /docs/ lists them"))
		return
	}
	g.answered(a, http.StatusOK)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text) // the client may have left
}

// docTitle returns the first heading of a page.
func docTitle(name string) string {
	text, _ := fs.ReadFile(docs.Pages, name) // it is embedded
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(strings.TrimLeft(line, "#"))
}

// wantsHTML reports whether a client prefers a page to JSON, as browsers say in Accept.
func wantsHTML(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

var frontTemplate = template.Must(template.New("front").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem; color: #222; background: #fff }
dt { margin-top: 1rem } dd { margin: 0; color: #555 } a { color: #0a58ca }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } dd { color: #aaa } a { color: #8ab4f8 } }
</style>
<h1>{{.Title}}</h1>
<p>Troupe serves many language models on a shared pool of GPUs.</p>
<dl>{{range .Links}}
<dt><a href="{{.Path}}">{{.Path}}</a></dt><dd>{{.About}}</dd>{{end}}
</dl>
`))

// page answers with a page of links.
func (g *Gateway) page(w http.ResponseWriter, a asked, title string, links []frontLink) {
	var page bytes.Buffer
	err := frontTemplate.Execute(&page, struct {
		Title string
		Links []frontLink
	}{title, links})
	if err != nil {
		g.fail(w, a, asError(err))
		return
	}
	g.answered(a, http.StatusOK)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(page.Bytes()) // the client may have left
}
