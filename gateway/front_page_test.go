package gateway_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFrontPage checks that browsers get HTML and programs JSON, and that all links are valid.
func TestFrontPage(t *testing.T) {
	w := newTestGateway(t, nil)
	browse := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9")
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, r)
		return answer
	}
	for _, path := range []string{"/", "/docs/"} {
		var list struct {
			Links []struct{ Path, About string }
		}
		program := w.get(path)
		if err := json.Unmarshal(program.Body.Bytes(), &list); err != nil || len(list.Links) < 5 {
			t.Fatalf("GET %s: %s: %v", path, program.Body, err)
		}
		page := browse(path)
		if got := page.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/html") {
			t.Errorf("GET %s from a browser: Content-Type %q", path, got)
		}
		for _, l := range list.Links {
			if !strings.Contains(page.Body.String(), `href="`+l.Path+`"`) {
				t.Errorf("the page at %s has no link to %s", path, l.Path)
			}
			if got := w.get(l.Path).Code; l.Path != "/tree" && got != 200 { // the node adds /tree
				t.Errorf("GET %s: %d", l.Path, got)
			}
			if l.About == "" {
				t.Errorf("%s: no title", l.Path)
			}
		}
	}
}

// TestDocsPages checks that pages of the documentation are served, and no other files.
func TestDocsPages(t *testing.T) {
	w := newTestGateway(t, nil)
	if got := w.get("/docs/architecture.md").Body.String(); !strings.HasPrefix(got, "# ") {
		t.Errorf("GET /docs/architecture.md: %.40q", got)
	}
	for _, path := range []string{"/docs/nothing.md", "/docs/docs.go", "/docs/adr", "/docs/%2e%2e/go.mod"} {
		if got := w.get(path).Code; got != 404 {
			t.Errorf("GET %s: %d, want 404", path, got)
		}
	}
}
