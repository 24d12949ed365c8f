package control

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"troupe/messages"
)

// decodeDeploy decodes a request to deploy "a". The other fields of the deployment come from a JSON
// object.
func decodeDeploy(t interface {
	Helper()
	Fatal(...any)
}, fields string) *messages.DeployModelRequest {
	t.Helper()
	var req messages.DeployModelRequest
	if err := Decode([]byte(`{"deployment": `+fields+`}`), &req); err != nil {
		t.Fatal(err)
	}
	if req.GetDeployment() != nil {
		req.Deployment.Name = "a"
	}
	return &req
}

// TestMerge checks that absent fields keep their values, that null resets a field, and that equal
// min_replicas and max_replicas follow replicas.
func TestMerge(t *testing.T) {
	stored := func(change func(*messages.DeploymentSpec)) *messages.DeploymentSpec {
		s := (&messages.DeploymentSpec{
			Name: "a", Path: "/p", Replicas: new(uint32(2)), MaxWaiting: new(uint32(9)), Applied: "x",
		}).Complete()
		if change != nil {
			change(s)
		}
		return s
	}
	wide := func(s *messages.DeploymentSpec) { s.MinReplicas, s.MaxReplicas = new(uint32(1)), new(uint32(4)) }
	stopped := func(s *messages.DeploymentSpec) { s.Replicas = new(uint32(0)) }
	for name, tc := range map[string]struct {
		stored  *messages.DeploymentSpec
		fields  string
		reset   []string
		changes string
		refused string
	}{
		"nothing":   {stored(nil), `{}`, nil, "nothing changed", ""},
		"one field": {stored(nil), `{"max_sequences": 8}`, nil, "max_sequences from 64 to 8", ""},
		"a field in camel case": {stored(nil), `{"maxSequences": 8, "maxWaiting": null}`, nil,
			"max_sequences from 64 to 8, max_waiting from 9 to 1024", ""},
		"zero":     {stored(nil), `{"max_waiting": 0}`, nil, "max_waiting from 9 to 0", ""},
		"null":     {stored(nil), `{"max_waiting": null}`, nil, "max_waiting from 9 to 1024", ""},
		"reset":    {stored(nil), `{}`, []string{"max_waiting"}, "max_waiting from 9 to 1024", ""},
		"the path": {stored(nil), `{"path": "/q"}`, nil, "path from /p to /q", ""},
		"a priority": {stored(nil), `{"priority": "batch"}`, nil,
			"priority from PRIORITY_STANDARD to PRIORITY_BATCH", ""},
		"a class as the priority": {stored(nil), `{"priority": "PRIORITY_CLASS_INTERACTIVE"}`, nil,
			"priority from PRIORITY_STANDARD to PRIORITY_HIGH", ""},
		"equal bounds follow": {stored(nil), `{"replicas": 3}`, nil,
			"replicas from 2 to 3, min_replicas from 2 to 3, max_replicas from 2 to 3", ""},
		"one bound given": {stored(nil), `{"replicas": 1, "max_replicas": 4}`, nil,
			"replicas from 2 to 1, min_replicas from 2 to 1, max_replicas from 2 to 4", ""},
		"only a bound":               {stored(nil), `{"max_replicas": 4}`, nil, "max_replicas from 2 to 4", ""},
		"within the bounds":          {stored(wide), `{"replicas": 3}`, nil, "replicas from 2 to 3", ""},
		"keeps the planner's choice": {stored(wide), `{"max_waiting": 1}`, nil, "max_waiting from 9 to 1", ""},
		"beyond the bounds": {stored(wide), `{"replicas": 5}`, nil,
			"", "replicas is 5, and must be within min_replicas 1 and max_replicas 4"},
		"bounds back to the default": {stored(wide), `{"min_replicas": null, "max_replicas": null}`, nil,
			"min_replicas from 1 to 2, max_replicas from 4 to 2", ""},
		"replicas back to the default": {stored(nil), `{"replicas": null}`, nil,
			"replicas from 2 to 1, min_replicas from 2 to 1, max_replicas from 2 to 1", ""},
		"stopped, with its bounds":   {stored(wide), `{"replicas": 0}`, nil, "replicas from 2 to 0", ""},
		"stopped, with equal bounds": {stored(nil), `{"replicas": 0}`, nil, "replicas from 2 to 0", ""},
		"changed while stopped":      {stored(stopped), `{"max_waiting": 1}`, nil, "max_waiting from 9 to 1", ""},
		"started": {stored(stopped), `{"replicas": 1}`, nil,
			"replicas from 0 to 1, min_replicas from 2 to 1, max_replicas from 2 to 1", ""},
		"new": {nil, `{"path": "/p", "max_waiting": 0, "kv_blocks": null}`, nil,
			"path /p, max_waiting 0", ""},
		"new, without a path": {nil, `{}`, nil, "", "deployment.path is missing"},
		"no path":             {stored(nil), `{"path": null}`, nil, "", "deployment.path is missing"},
		"set by nodes": {stored(nil), `{"applied": null}`, nil,
			"", "deployment.applied cannot be reset; these can: path, replicas"},
		"as models.get has it": {stored(nil), `{"held_by": null, "assignments": null, "max_waiting": 3}`, nil,
			"max_waiting from 9 to 3", ""},
		"no such field": {stored(nil), `{}`, []string{"color"}, "", "deployment.color cannot be reset"},
		"value and reset": {stored(nil), `{"max_waiting": 3}`, []string{"max_waiting"},
			"", "deployment.max_waiting has a value and is to be reset"},
	} {
		req, before := decodeDeploy(t, tc.fields), proto.CloneOf(tc.stored)
		got, err := applyChange(tc.stored, req.GetDeployment(), append(req.GetResetFields(), tc.reset...))
		switch {
		case tc.refused == "" && (err != nil || ChangesText(Changes(tc.stored, got)) != tc.changes):
			t.Errorf("%s: %v, %v; want %s", name, ChangesText(Changes(tc.stored, got)), err, tc.changes)
		case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("%s: error %v, want %q", name, err, tc.refused)
		case tc.refused == "" && got.GetApplied() != tc.stored.GetApplied():
			t.Errorf("%s: applied is %q", name, got.GetApplied())
		}
		if !proto.Equal(tc.stored, before) {
			t.Errorf("%s: the stored deployment changed to %v", name, tc.stored)
		}
	}
}

// TestMergeChangesOnlyItsFields checks that a change of one field changes no other field of any
// stored deployment, except for the bounds. Changes of two fields have the same result in either
// order.
func TestMergeChangesOnlyItsFields(t *testing.T) {
	fields := map[string]string{
		"max_sequences": "7", "max_waiting": "0", "step_tokens": "33", "block_tokens": "8", "kv_blocks": "5",
		"adapter_pages": "3", "max_adapters": "2", "max_adapter_rank": "16",
		"priority": `"batch"`, "path": `"/q"`, "replicas": "0",
	}
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		apply := func(stored *messages.DeploymentSpec, name string) *messages.DeploymentSpec {
			req := decodeDeploy(t, `{"`+name+`": `+fields[name]+`}`)
			got, err := applyChange(stored, req.GetDeployment(), req.GetResetFields())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range Changes(stored, got) {
				if c.GetField() != name {
					t.Fatalf("%s: %v", name, c)
				}
			}
			return got
		}
		replicas := rapid.Uint32Range(0, 9).Draw(t, "replicas")
		stored := (&messages.DeploymentSpec{Name: "a", Path: "/p", Replicas: new(replicas)}).Complete()
		for _, name := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "before") {
			stored = apply(stored, name)
		}
		one, other := rapid.SampledFrom(names).Draw(t, "one"), rapid.SampledFrom(names).Draw(t, "other")
		if a, b := apply(apply(stored, one), other), apply(apply(stored, other), one); !proto.Equal(a, b) {
			t.Fatalf("%v, but %v in the other order", a, b)
		}
	})
}

// TestChangesShowNewFiles checks that Changes lists revision_digest when the files changed.
func TestChangesShowNewFiles(t *testing.T) {
	before := (&messages.DeploymentSpec{
		Name: "a", Path: "/p", WeightsDigest: "w", RevisionDigest: "r", Deploy: 1,
	}).Complete()
	after := proto.CloneOf(before)
	after.WeightsDigest, after.RevisionDigest, after.Deploy = "", "", 2
	if got, want := ChangesText(Changes(before, after)), "revision_digest from r to none"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
