package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// noQuorumBackend is a backend whose store has lost its quorum. All methods but those below panic.
type noQuorumBackend struct{ Backend }

func (noQuorumBackend) StoreProblem() *messages.Refused {
	return &messages.Refused{Reason: messages.Reason_REASON_NO_QUORUM, Detail: "1 of 3"}
}

func (noQuorumBackend) Members() []*messages.Member      { return nil }
func (noQuorumBackend) Departed() []*messages.NodeStatus { return nil }

// TestListNodesShowsStoreProblem checks that nodes.list shows why changes are refused.
func TestListNodesShowsStoreProblem(t *testing.T) {
	c := &control{view: &View{Backend: noQuorumBackend{}}, Config: Config{Backend: noQuorumBackend{}}}
	res, err := c.listNodes(t.Context(), nil)
	if s := res.GetStore(); err != nil || s.GetReason() != messages.Reason_REASON_NO_QUORUM ||
		s.GetDetail() != "1 of 3" {
		t.Errorf("%v, %v", res, err)
	}
}

// TestEndpointsAreClassified checks that each endpoint is read-only, changes the store, or changes
// only what runs. An endpoint that changes something needs a hint on how to verify the change.
func TestEndpointsAreClassified(t *testing.T) {
	c := &control{Config: Config{Backend: noQuorumBackend{}, Node: "n", Timeout: time.Second}}
	running := map[string]bool{ // these change nothing in the store
		"replicas-restart": true, "replicas-migrate": true, "gpus-quarantine": true, "gpus-release": true,
		"gpus-evict": true,
		"kv-offload": true, "kv-restore": true, "kv-flush": true, "node-kv": true,
		"node-record": true,
	}
	for _, e := range c.endpoints(t.Context()) {
		kinds := 0
		for _, kind := range []map[string]bool{readOnly, changesStore, running} {
			if kind[e.Name] {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s is listed in %d maps; list it in one of readOnly, changesStore and, in this test, running",
				e.Name, kinds)
		}
		first, _, _ := strings.Cut(e.Name, "-")
		if !readOnly[e.Name] && verifyHints[first] == "" {
			t.Errorf("%s: no hint in verifyHints", e.Name)
		}
		if err := c.checkStore(e.Name); (err != nil) != changesStore[e.Name] {
			t.Errorf("%s, without quorum: %v", e.Name, err)
		} else if err != nil && reasonOf(err) != messages.Reason_REASON_NO_QUORUM {
			t.Errorf("%s: reason %s", e.Name, reasonOf(err))
		}
	}
}

// withReason is an error of another package that has a reason.
type withReason struct{ *messages.Refused }

func (withReason) Error() string { return "the store has not confirmed it" }

// TestErrorReply checks that a change that times out has an unknown outcome, and that a read does
// not.
func TestErrorReply(t *testing.T) {
	late := fmt.Errorf("deployment kjv: %w", context.DeadlineExceeded)
	unconfirmed := withReason{&messages.Refused{Reason: messages.Reason_REASON_OUTCOME_UNKNOWN}}
	const deadline, unknown = messages.Reason_REASON_DEADLINE, messages.Reason_REASON_OUTCOME_UNKNOWN
	stats := &messages.KvNodeRequest{What: &messages.KvNodeRequest_Stats{Stats: &messages.KvStatsRequest{}}}
	for _, c := range []struct {
		endpoint string
		req      proto.Message
		err      error
		want     messages.Reason
		hint     string
	}{
		{"models-scale", nil, late, unknown, "models.get"},
		{"models-scale", nil, unconfirmed, unknown, "models.get"},
		{"adapters-pin", nil, unconfirmed, unknown, "adapters.get"},
		{"nodes-drain", nil, late, unknown, "nodes.list"},
		{"replicas-restart", nil, late, unknown, "replicas.list"},
		{"kv-pin", nil, late, unknown, "kv.stats"},
		{"node-kv", &messages.KvNodeRequest{}, late, unknown, "kv.stats"},
		{"node-kv", stats, late, deadline, ""},
		{"models-list", nil, late, deadline, ""},
		{"adapters-pin", nil, Refuse(deadline, "it is stored"), deadline, ""},
		{"models-scale", nil, Refuse(messages.Reason_REASON_CONFLICT, "no"), messages.Reason_REASON_CONFLICT, ""},
		{"models-scale", nil, errors.New("x"), messages.Reason_REASON_INTERNAL, ""},
	} {
		reason, text := errorReply(c.endpoint, c.req, c.err)
		if reason != c.want || !strings.Contains(text, c.err.Error()) || !strings.Contains(text, c.hint) {
			t.Errorf("%s, %v: %s, %q; want %s and %q", c.endpoint, c.err, reason, text, c.want, c.hint)
		}
		if c.hint == "" && text != c.err.Error() {
			t.Errorf("%s, %v: %q", c.endpoint, c.err, text)
		}
	}
}
