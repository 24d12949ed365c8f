package control

import (
	"errors"
	"strings"
	"testing"

	"troupe/messages"
)

// TestMergeAnswers makes one answer of what nodes say of a folder.
func TestMergeAnswers(t *testing.T) {
	says := func(node, revision string, changed bool) modelAnswer {
		return modelAnswer{node: node, model: &messages.NodeModelResponse{RevisionDigest: revision, Changed: changed}}
	}
	missing := func(node string) modelAnswer {
		return modelAnswer{node: node, model: &messages.NodeModelResponse{Missing: true}}
	}
	silent := modelAnswer{node: "d", model: &messages.NodeModelResponse{}, err: errors.New("no answer within 1s")}
	for _, tc := range []struct {
		name     string
		all      []modelAnswer
		revision string
		changed  bool
	}{
		{"one has it", []modelAnswer{missing("a"), says("b", "", false)}, "", false},
		{"one knows it", []modelAnswer{says("a", "", false), says("b", "x", false), missing("c"), silent}, "x", false},
		{"two know it", []modelAnswer{says("a", "x", false), says("b", "x", false)}, "x", false},
		{"they differ", []modelAnswer{says("a", "x", false), says("b", "y", false), says("c", "x", false)}, "", true},
		{"one has seen it change", []modelAnswer{says("a", "", true), says("b", "x", false)}, "", true},
		{"another one has", []modelAnswer{says("a", "x", false), says("b", "", true)}, "", true},
	} {
		got, err := mergeAnswers("/m", tc.all)
		if err != nil || got.GetRevisionDigest() != tc.revision || got.GetChanged() != tc.changed || got.GetMissing() {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
	_, err := mergeAnswers("/m", []modelAnswer{missing("a"), silent})
	if err == nil || !strings.Contains(err.Error(),
		"/m: no such folder; no node has this folder, or may read it: asked were a, d (d: no answer within 1s)") {
		t.Error(err)
	}
}
