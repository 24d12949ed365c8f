package control

import (
	"errors"
	"strings"
	"testing"

	"troupe/messages"
)

// TestMergeAnswers checks how the answers of all nodes about one folder are combined.
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
		{"one node has it", []modelAnswer{missing("a"), says("b", "", false)}, "", false},
		{"one node knows the digest",
			[]modelAnswer{says("a", "", false), says("b", "x", false), missing("c"), silent}, "x", false},
		{"two nodes know the digest", []modelAnswer{says("a", "x", false), says("b", "x", false)}, "x", false},
		{"digests differ",
			[]modelAnswer{says("a", "x", false), says("b", "y", false), says("c", "x", false)}, "", true},
		{"one node saw a change", []modelAnswer{says("a", "", true), says("b", "x", false)}, "", true},
		{"the other node saw a change", []modelAnswer{says("a", "x", false), says("b", "", true)}, "", true},
	} {
		got, err := mergeAnswers("/m", "x", tc.all)
		if err != nil || got.GetRevisionDigest() != tc.revision || got.GetChanged() != tc.changed || got.GetMissing() {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
	_, err := mergeAnswers("/m", "", []modelAnswer{missing("a"), silent})
	if err == nil || !strings.Contains(err.Error(),
		"/m: no such folder; no node has this folder or may read it; asked: a, d (d: no answer within 1s)") {
		t.Error(err)
	}
}

// TestMergeImages checks the answer about a folder that is gone, of which nodes have images: the deployed
// revision stays deployed, and no other one takes its place.
func TestMergeImages(t *testing.T) {
	image := func(node, revision string) modelAnswer {
		return modelAnswer{node: node, model: &messages.NodeModelResponse{RevisionDigest: revision, Image: true}}
	}
	gone := modelAnswer{node: "c", model: &messages.NodeModelResponse{Missing: true}}
	folder := modelAnswer{node: "d", model: &messages.NodeModelResponse{RevisionDigest: "z"}}
	for _, tc := range []struct {
		name, deployed string
		all            []modelAnswer
		want           string // revision, or a part of the refusal
	}{
		{"the deployed revision", "x", []modelAnswer{image("a", "y"), gone, image("b", "x")}, "x"},
		{"another revision", "x", []modelAnswer{image("a", "y"), gone},
			"images of other files that it had: y; revision x stays"},
		{"nothing deployed", "", []modelAnswer{gone, image("a", "y"), image("b", "y")}, "y"},
		{"nothing deployed, several revisions", "", []modelAnswer{image("a", "y"), image("b", "x")},
			"images of other files that it had: y, x"},
		{"a node has the folder", "x", []modelAnswer{image("a", "x"), folder}, "z"},
	} {
		got, err := mergeAnswers("/m", tc.deployed, tc.all)
		if err == nil && got.GetRevisionDigest() != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) ||
			err == nil && got.GetChanged() {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
}
