package tree_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"troupe/cluster/tree"
	"troupe/messages"
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
		{"?format=svg", "", "text/plain", "svg is not known", 400},
		{"?node=c", "", "text/plain", "no such node", 404},
	} {
		req := httptest.NewRequest(http.MethodGet, "/tree"+tc.query, nil)
		req.Header.Set("Accept", tc.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != tc.status || !strings.HasPrefix(w.Header().Get("Content-Type"), tc.kind) || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %s: %d %v %s", tc.query, tc.accept, w.Code, w.Header(), w.Body)
		}
	}
}
