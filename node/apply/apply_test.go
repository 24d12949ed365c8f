package apply

import (
	"context"
	"errors"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/messages"
	"troupe/testkit"
)

// stored is a store with at most one deployment and one adapter.
type stored struct {
	model    *messages.DeploymentSpec
	adapter  *messages.AdapterSpec
	writes   int
	unusable error // of the adapter's files
}

func (s *stored) Update(_ context.Context, _ string, _ uint64, change control.Change) (control.Updated, error) {
	next, err := change(s.model)
	if err != nil {
		return control.Updated{}, err
	}
	done := control.Updated{Before: s.model, After: next}
	s.model = next
	s.writes++
	return done, nil
}

func (s *stored) Revise(_, _ *messages.DeploymentSpec) {}

func (s *stored) Check(_ context.Context, req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error) {
	return proto.CloneOf(req.GetAdapter()), s.unusable
}

func (s *stored) Register(_ context.Context, req *messages.RegisterAdapterRequest,
	applied string) (*messages.AdapterSpec, error) {
	s.adapter = proto.CloneOf(req.GetAdapter())
	s.adapter.Applied = applied
	s.writes++
	return s.adapter, nil
}

func (s *stored) Adapter(context.Context, string, string) (*messages.AdapterSpec, uint64, error) {
	if s.adapter == nil {
		return nil, 0, store.ErrNotFound
	}
	return s.adapter, 1, nil
}

// TestApply checks that a configuration is applied once, and again when it changes.
func TestApply(t *testing.T) {
	s := &stored{}
	model := &messages.DeploymentSpec{Name: "kjv", Path: testkit.Model()}
	adapter := &messages.RegisterAdapterRequest{
		Adapter: &messages.AdapterSpec{Model: "kjv", Name: "psalms", Path: "/psalms"},
	}
	c := Configuration{
		Deployments: []*messages.DeploymentSpec{model}, Adapters: []*messages.RegisterAdapterRequest{adapter},
		Models: s, Registry: s, Store: s, Log: zerolog.Nop(),
	}
	check := func(when string, writes int) {
		t.Helper()
		if err := errors.Join(c.ApplyDeployments(t.Context()), c.ApplyAdapters(t.Context())); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if s.writes != writes {
			t.Errorf("%s: %d writes, want %d", when, s.writes, writes)
		}
	}
	check("at the first start", 2)
	check("after a restart", 2)
	s.model.Replicas = new(uint32(5))
	check("after a scale", 2)
	model.Replicas = new(uint32(2))
	check("after a change of the configuration", 3)
	s.unusable = errors.New("no file")
	check("with an adapter that can no longer be read", 3)
	s.adapter = nil
	if err := c.ApplyAdapters(t.Context()); !errors.Is(err, s.unusable) {
		t.Errorf("a new adapter that cannot be read: %v", err)
	}
}

// TestApplyAfterUpgrade checks that an entry that a version without priorities applied is not applied again,
// which would undo what operators changed since.
func TestApplyAfterUpgrade(t *testing.T) {
	before := &messages.DeploymentSpec{Name: "kjv", Path: testkit.Model(),
		DefaultClass: messages.PriorityClass_PRIORITY_CLASS_INTERACTIVE.Enum()} // the field that was the priority
	applied, err := appliedDigest(before)
	if err != nil {
		t.Fatal(err)
	}
	stored := &stored{model: &messages.DeploymentSpec{Name: "kjv", Path: testkit.Model(), Applied: applied}}
	given := &messages.DeploymentSpec{Name: "kjv", Path: testkit.Model(),
		Priority: messages.Priority_PRIORITY_HIGH.Enum()}
	c := Configuration{Deployments: []*messages.DeploymentSpec{given}, Models: stored, Log: zerolog.Nop()}
	if err := c.ApplyDeployments(t.Context()); err != nil || stored.writes != 0 {
		t.Errorf("%d writes, %v", stored.writes, err)
	}
	stored.model.Assignments = &messages.Assignments{Term: 7}
	given.Pinned = new(true)
	if err := c.ApplyDeployments(t.Context()); err != nil || stored.writes != 1 ||
		stored.model.GetAssignments().GetTerm() != 7 || !stored.model.GetPinned() {
		t.Errorf("%d writes of %v, %v", stored.writes, stored.model, err)
	}
}
