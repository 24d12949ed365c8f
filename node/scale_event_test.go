package node_test

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestRefusedScalePublishesNoEvent checks that no event is published for a change that the store
// refuses.
func TestRefusedScalePublishesNoEvent(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	events, err := conn.SubscribeSync("troupe.v1.events.model.scaled")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	problem := errors.New("no quorum")
	read := make(chan struct{}, 1)
	n.CheckStore(func() error {
		select {
		case read <- struct{}{}: // lets the read of the deployment pass, but not the write
			return nil
		default:
			return problem
		}
	})
	if _, _, err := n.Scale(t.Context(), "kjv", 2); !errors.Is(err, problem) {
		t.Errorf("got %v", err)
	}
	n.CheckStore(func() error { return nil })
	if _, _, err := n.Scale(t.Context(), "kjv", 3); err != nil {
		t.Fatal(err)
	}
	m, err := events.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if want := "replicas from 1 to 3"; !strings.Contains(string(m.Data), want) {
		t.Errorf("%s, want %q", m.Data, want)
	}
}
