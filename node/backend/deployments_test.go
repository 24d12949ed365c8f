package backend

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/router"
	"troupe/actors/planner"
	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	core "troupe/core/backend"
	plan "troupe/core/planner"
	"troupe/engine"
	"troupe/messages"
	"troupe/node/query"
)

// loader knows the digests of all files.
type loader struct {
	engine.Loader
	digests engine.Digests
}

func (l loader) CachedDigests(string) (engine.Digests, bool) { return l.digests, false }

func deployments(t *testing.T, d *deployed, e *events) *DeploymentControl {
	return &DeploymentControl{
		ModelFiles: &ModelFiles{Node: "a", Loader: func(core.Kind) engine.Loader {
			return loader{digests: engine.Digests{Weights: "w", Revision: "r"}}
		}},
		Store: d, Catalogue: catalogue.New(), Publish: e.publish, Log: zerolog.Nop(),
		System: system(t, map[string]func(any) proto.Message{
			query.Router: cluster(&messages.ClusterView{Deployments: []*messages.DeploymentStatus{{Revision: 7}}}),
		}),
	}
}

// TestUpdate checks that an update is repeated after a conflict, that a revision that is not the
// stored one is refused, and which events are published.
func TestUpdate(t *testing.T) {
	d, e := &deployed{conflict: 1}, events{}
	c := deployments(t, d, &e)
	calls := 0
	deploy := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		calls++
		next := &messages.DeploymentSpec{Name: "m", Path: "/m", Replicas: new(uint32(1))}
		c.Revise(next, stored)
		return next, nil
	}
	done, err := c.Update(t.Context(), "m", 0, deploy)
	if err != nil || calls != 2 || done.Before != nil || done.After.GetRevisionDigest() != "r" {
		t.Errorf("%v after %d calls: %v", done, calls, err)
	}
	scale := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		next := proto.CloneOf(stored)
		next.Replicas = new(uint32(2))
		return next, nil
	}
	if done, err = c.Update(t.Context(), "m", done.Revision, scale); err != nil || done.Before.GetReplicas() != 1 {
		t.Errorf("%v, %v", done, err)
	}
	if _, err := c.Update(t.Context(), "m", done.Revision-1, scale); !errors.As(err, &control.Refusal{}) {
		t.Errorf("an old revision: %v", err)
	}
	assigned := planner.Assigned{Name: "m", Revision: done.Revision - 1, Replicas: 3,
		Assignments: &messages.Assignments{Term: 5, Replicas: []*messages.Assignment{{Replica: "m-1"}}},
		Write: plan.Write{
			Changes: []plan.Change{{Replica: "m-1", Why: "load"}, {Replica: "m-0", Withdrawn: true}}}}
	if _, err := c.AssignAtRevision(t.Context(), assigned); !errors.Is(err, planner.ErrConflict) {
		t.Errorf("an old revision: %v", err)
	}
	assigned.Revision = done.Revision
	if at, err := c.AssignAtRevision(t.Context(), assigned); err != nil || d.spec.GetReplicas() != 3 || at != d.at ||
		d.spec.GetAssignments().GetTerm() != 5 {
		t.Errorf("%v at %d, %v", d.spec, at, err)
	}
	assigned.Revision, assigned.Changes = d.at, nil
	d.spec.Level, d.spec.HeldBy = messages.Level_LEVEL_STANDBY, &messages.Hold{What: "models.standby"}
	if _, err := c.AssignAtRevision(t.Context(), assigned); err != nil || !d.spec.Held() {
		t.Errorf("%v, %v", d.spec, err)
	}
	assigned.Revision, assigned.Released = d.at, "ops (models.standby)"
	if _, err := c.AssignAtRevision(t.Context(), assigned); err != nil || d.spec.Held() {
		t.Errorf("%v, %v", d.spec, err)
	}
	d.spec.Level, d.spec.ReplicaLevels = messages.Level_LEVEL_PARKED, map[string]messages.Level{"m-0": 2}
	d.spec.HeldBy = &messages.Hold{What: "models.park"}
	if err := c.StoreLevel(t.Context(), "m", d.at-1, 0, "late"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("an old revision: %v", err)
	}
	if err := c.StoreLevel(t.Context(), "m", d.at, 0, "requests wait"); err != nil || d.spec.Held() ||
		d.spec.GetReplicas() != 3 {
		t.Errorf("%v, %v", d.spec, err)
	}
	if err := c.StoreLevel(t.Context(), "m", d.at, messages.Level_LEVEL_PARKED, "in vain"); err != nil ||
		d.spec.GetLevel() != messages.Level_LEVEL_PARKED || d.spec.GetReplicas() != 3 {
		t.Errorf("%v, %v", d.spec, err)
	}
	if err := c.DeleteDeployment(t.Context(), "m", false); err != nil {
		t.Error(err)
	}
	if err := c.DeleteDeployment(t.Context(), "m", false); !errors.As(err, &control.Refusal{}) {
		t.Errorf("deleted twice: %v", err)
	}
	want := []string{"model.deployed", "model.scaled", "replica.assigned", "replica.withdrawn",
		"model.scaled", "model.released", "model.scaled", "model.scaled", "model.deleted"}
	if !slices.Equal(e, want) {
		t.Errorf("%q, want %q", e, want)
	}
	if all, err := c.Deployments(t.Context()); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
}

// TestRecordDigests checks that digests are recorded once, and not for another deploy.
func TestRecordDigests(t *testing.T) {
	d, e := &deployed{spec: &messages.DeploymentSpec{Name: "m", Deploy: 2}, at: 5}, events{}
	c := deployments(t, d, &e)
	for _, c := range []struct{ deploy, at uint64 }{{1, 5}, {2, 6}, {2, 6}} {
		if err := recordDigests(t.Context(), deployments(t, d, &e), c.deploy); err != nil || d.at != c.at {
			t.Errorf("deploy %d: revision %d, want %d: %v", c.deploy, d.at, c.at, err)
		}
	}
	if d.spec.GetRevisionDigest() != "sha256:2" || len(e) != 1 {
		t.Errorf("%v, %q", d.spec, e)
	}
	if err := c.RecordDigests(t.Context(), "deleted", 1, "", ""); err != nil {
		t.Error(err)
	}
}

func recordDigests(ctx context.Context, c *DeploymentControl, deploy uint64) error {
	return c.RecordDigests(ctx, "m", deploy, "sha256:1", "sha256:2")
}

// TestDirectory checks that the gateway finds a deployment in the cache of the router, and that the
// refusal of an unknown one names adapters if there are any.
func TestDirectory(t *testing.T) {
	var e events
	c := deployments(t, &deployed{}, &e)
	c.System = system(t, map[string]func(any) proto.Message{query.Router: func(any) proto.Message {
		return &messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND, Detail: "unknown"}
	}})
	d := Directory{DeploymentControl: c, Cache: &router.DeploymentCache{}}
	if _, err := d.Deployment(t.Context(), "m"); err == nil || err.Error() != "unknown" {
		t.Error(err)
	}
	c.Catalogue.Apply(store.AdapterChange{
		Model: "m", Name: "psalms", At: 1, Spec: &messages.AdapterSpec{Model: "m", Name: "psalms"},
	})
	if _, err := d.Deployment(t.Context(), "m"); err == nil || !strings.Contains(err.Error(), "and adapters") {
		t.Error(err)
	}
}
