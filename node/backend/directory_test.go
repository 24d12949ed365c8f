package backend_test

import (
	"errors"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/router"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/messages"
	"troupe/node/backend"
	"troupe/node/query"
	"troupe/testkit"
)

// TestDirectoryOfADeletedDeployment checks that a deployment of which the router knows only replicas
// is not found: without a path, the gateway would fail to load its tokenizer.
func TestDirectoryOfADeletedDeployment(t *testing.T) {
	sys := testkit.System(t)
	_, err := sys.Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
		if m, ok := c.Message().(*messages.GetDeployment); ok {
			spec := &messages.DeploymentSpec{Name: m.GetName()}
			if m.GetName() == "stored" {
				spec.Path = "/models/stored"
			}
			c.Respond(&messages.DeploymentStatus{Spec: spec})
		}
	}), query.Router)
	if err != nil {
		t.Fatal(err)
	}
	d := backend.Directory{Cache: &router.DeploymentCache{},
		DeploymentControl: &backend.DeploymentControl{System: sys, Catalogue: catalogue.New()}}
	if got, err := d.Deployment(t.Context(), "stored"); err != nil || got.GetSpec().GetPath() == "" {
		t.Errorf("stored: %v, %v", got, err)
	}
	var refused control.Refusal
	if got, err := d.Deployment(t.Context(), "deleted"); !errors.As(err, &refused) ||
		refused.GetReason() != messages.Reason_REASON_NOT_FOUND {
		t.Errorf("deleted: %v, %v", got, err)
	}
}
