package stored

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// TestDiagnose checks which of the problems in nodes.list a node reports while it waits for the
// store.
func TestDiagnose(t *testing.T) {
	full := &messages.DiskStatus{Low: true, Stopped: true, Detail: "data folder /d has 0 B free"}
	for want, res := range map[string]*messages.ListNodesResponse{
		"": {Nodes: []*messages.NodeStatus{{Disk: &messages.DiskStatus{Detail: "well"}}, {}}},
		"node a: data folder /d has 0 B free": {Nodes: []*messages.NodeStatus{
			{Member: &messages.Member{Name: "a"}, Disk: full},
		}, Store: &messages.Refused{Reason: messages.Reason_REASON_NO_SPACE, Detail: "the same again"}},
		"no quorum; node b: lost; last seen at noon": {Nodes: []*messages.NodeStatus{
			{Member: &messages.Member{Name: "b"}, Unreachable: "lost; last seen at noon"},
		}, Store: &messages.Refused{Reason: messages.Reason_REASON_NO_QUORUM, Detail: "no quorum"}},
	} {
		if got := diagnose(res); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestWithCause checks that the error of a step includes the diagnosis of the store.
func TestWithCause(t *testing.T) {
	err := withCause(fmt.Errorf("KV bucket troupe: timed out"), "node a: data folder /d is full")
	if got := err.Error(); got != "KV bucket troupe: timed out; node a: data folder /d is full" {
		t.Error(got)
	}
	if withCause(nil, "x") != nil || withCause(err, "") != err {
		t.Error("nothing to explain")
	}
}

// TestExplain checks that the wait of a step is explained once another node knows the cause, and
// that the error of a step that fails at once includes the cause too.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		full := &messages.ListNodesResponse{Store: &messages.Refused{Detail: "no quorum"}}
		w := Waiting{
			Nodes:   func(context.Context) (*messages.ListNodesResponse, error) { return full, nil },
			Log:     zerolog.New(log),
			Runtime: supervise.System,
		}
		slow := func(context.Context) error { time.Sleep(diagnoseAfter + diagnoseEvery + time.Second); return nil }
		if err := w.Explain(slow)(t.Context()); err != nil || strings.Count(log.String(), `"reason":"no quorum"`) != 2 {
			t.Errorf("%v: %s", err, log)
		}
		failed := errors.New("no store")
		err := w.Explain(func(context.Context) error { return failed })(t.Context())
		if !errors.Is(err, failed) || err.Error() != "no store; no quorum" {
			t.Error(err)
		}
		w.Nodes = func(context.Context) (*messages.ListNodesResponse, error) { return nil, errors.New("no node") }
		if err := w.Explain(func(context.Context) error { return failed })(t.Context()); err != failed {
			t.Error(err)
		}
	})
}
