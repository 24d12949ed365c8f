package control

import (
	"errors"
	"strings"
	"testing"

	"troupe/messages"
)

// TestWeigh makes one answer of what nodes say of a folder.
func TestWeigh(t *testing.T) {
	says := func(node, revision string, changed bool) answer {
		return answer{node: node, model: &messages.NodeModelResponse{RevisionDigest: revision, Changed: changed}}
	}
	missing := func(node string) answer {
		return answer{node: node, model: &messages.NodeModelResponse{Missing: true}}
	}
	silent := answer{node: "d", model: &messages.NodeModelResponse{}, err: errors.New("no answer within 1s")}
	for _, tc := range []struct {
		name     string
		all      []answer
		revision string
		changed  bool
	}{
		{"one has it", []answer{missing("a"), says("b", "", false)}, "", false},
		{"one knows it", []answer{says("a", "", false), says("b", "x", false), missing("c"), silent}, "x", false},
		{"two know it", []answer{says("a", "x", false), says("b", "x", false)}, "x", false},
		{"they differ", []answer{says("a", "x", false), says("b", "y", false), says("c", "x", false)}, "", true},
		{"one has seen it change", []answer{says("a", "", true), says("b", "x", false)}, "", true},
		{"another one has", []answer{says("a", "x", false), says("b", "", true)}, "", true},
	} {
		got, err := weigh("/m", tc.all)
		if err != nil || got.GetRevisionDigest() != tc.revision || got.GetChanged() != tc.changed || got.GetMissing() {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
	_, err := weigh("/m", []answer{missing("a"), silent})
	if err == nil || !strings.Contains(err.Error(),
		"/m: no such folder; no node has this folder, or may read it: asked were a, d (d: no answer within 1s)") {
		t.Error(err)
	}
}
