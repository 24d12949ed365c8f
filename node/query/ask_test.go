package query_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/control"
	"troupe/messages"
	"troupe/node/query"
)

// TestWithin checks the result for each kind of answer.
func TestWithin(t *testing.T) {
	sys := actor.NewActorSystem()
	t.Cleanup(func() { sys.Shutdown() })
	lost := 1 // number of queries that the actor loses
	pid, err := sys.Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *messages.GetDeployment:
			switch m.GetName() {
			case "known":
				c.Respond(&messages.DeploymentStatus{Revision: 7})
			case "refused":
				c.Respond(&messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND})
			case "other":
				c.Respond(&messages.GpuStatus{})
			case "lost once":
				if lost--; lost < 0 {
					c.Respond(&messages.DeploymentStatus{Revision: 8})
				}
			}
		}
	}), query.Router)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name string) (*messages.DeploymentStatus, error) {
		return query.Within[*messages.DeploymentStatus](t.Context(), sys, pid, &messages.GetDeployment{Name: name},
			20*time.Millisecond, 200*time.Millisecond)
	}
	if d, err := ask("known"); err != nil || d.GetRevision() != 7 {
		t.Errorf("known: %v, %v", d, err)
	}
	if d, err := ask("lost once"); err != nil || d.GetRevision() != 8 {
		t.Errorf("lost once: %v, %v", d, err)
	}
	if _, err := ask("refused"); !errors.As(err, &control.Refusal{}) {
		t.Errorf("refused: %v", err)
	}
	for name, want := range map[string]string{"other": "GpuStatus", "silent": "does not answer"} {
		if _, err := ask(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, err := query.Ask[*messages.DeploymentStatus](t.Context(), sys, query.Router,
		&messages.GetDeployment{Name: "known"})
	if err != nil || d.GetRevision() != 7 {
		t.Errorf("by ID: %v, %v", d, err)
	}
}
