package tree_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"troupe/messages"
	"troupe/observe/tree"
)

func TestHandler(t *testing.T) {
	h := tree.Handler(func(_ context.Context, node string, whole bool) ([]*messages.ActorNode, error) {
		if node != "" && node != "b" {
			return nil, errors.New("no such node")
		}
		root := gateway("b", 20)
		if !whole {
			tree.Fold(root)
		}
		return []*messages.ActorNode{root}, nil
	})
	for _, tc := range []struct {
		query, accept, kind, want string
		status                    int
	}{
		{"", "", "text/plain", "└─ … 14 more sessions", 200},
		{"?format=json&node=b", "", "application/json", `"name": "session-19"`, 200},
		{"?format=dot", "", "text/vnd.graphviz", "… 14 more sessions", 200},
		{"", "text/html,*/*", "text/html", "<pre", 200},
		{"?format=svg", "", "text/plain", "svg is unknown", 400},
		{"?node=c", "", "text/plain", "no such node", 404},
	} {
		req := httptest.NewRequest(http.MethodGet, "/tree"+tc.query, nil)
		req.Header.Set("Accept", tc.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != tc.status || !strings.HasPrefix(w.Header().Get("Content-Type"), tc.kind) ||
			!strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %s: %d %v %s", tc.query, tc.accept, w.Code, w.Header(), w.Body)
		}
	}
}

// TestPagePolicy: only the page's own script runs, even if an actor's name contains markup.
func TestPagePolicy(t *testing.T) {
	h := tree.Handler(func(context.Context, string, bool) ([]*messages.ActorNode, error) {
		return []*messages.ActorNode{{Name: "</pre><script>alert(1)</script>"}}, nil
	})
	nonces := map[string]bool{}
	for range 2 {
		req := httptest.NewRequest(http.MethodGet, "/tree", nil)
		req.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		found := regexp.MustCompile(
			"^default-src 'none'; script-src 'nonce-([A-Z0-9]{20,})'; style-src 'nonce-([A-Z0-9]{20,})'; " +
				".*frame-ancestors 'none'$",
		).
			FindStringSubmatch(
				w.Header().Get("Content-Security-Policy"),
			)
		if found == nil {
			t.Fatalf("policy %q", w.Header().Get("Content-Security-Policy"))
		}
		nonces[found[1]] = true
		page := w.Body.String()
		if n := strings.Count(page, "<script nonce=\""+found[1]+"\">") +
			strings.Count(page, "<style nonce=\""+found[1]+"\">"); n != 2 {
			t.Errorf("%d elements have the nonce, want the script and the style", n)
		}
		if strings.Count(page, "<script") != 1 || strings.Contains(page, " style=") ||
			strings.Contains(page, " onclick=") {
			t.Errorf("the policy blocks part of the page:\n%s", page)
		}
	}
	if len(nonces) != 2 {
		t.Error("two responses have the same nonce")
	}
}
