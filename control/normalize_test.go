package control

import (
	"strings"
	"testing"

	"troupe/messages"
)

// bounds holds replicas, min_replicas and max_replicas. A negative value means that the field is
// absent.
type bounds [3]int

const none = -1

func (b bounds) spec() *messages.DeploymentSpec {
	s := &messages.DeploymentSpec{Name: "a", Path: "p"}
	for i, field := range []**uint32{&s.Replicas, &s.MinReplicas, &s.MaxReplicas} {
		if b[i] >= 0 {
			*field = new(uint32(b[i]))
		}
	}
	return s
}

func boundsOf(s *messages.DeploymentSpec) bounds {
	return bounds{int(s.GetReplicas()), int(s.GetMinReplicas()), int(s.GetMaxReplicas())}
}

func TestNormalizeBounds(t *testing.T) {
	for _, tc := range []struct {
		given, want bounds
		refused     string
	}{
		{given: bounds{none, none, none}, want: bounds{1, 1, 1}},
		{given: bounds{3, none, none}, want: bounds{3, 3, 3}},
		{given: bounds{none, 2, none}, want: bounds{2, 2, 2}},
		{given: bounds{none, none, 4}, want: bounds{1, 1, 4}},
		{given: bounds{2, 1, 4}, want: bounds{2, 1, 4}},
		{given: bounds{2, 0, 4}, want: bounds{2, 0, 4}},
		{given: bounds{none, 0, none}, want: bounds{1, 0, 1}},
		{given: bounds{0, none, none}, want: bounds{0, 0, 0}},
		{given: bounds{0, 0, none}, want: bounds{0, 0, 1}},
		{given: bounds{0, 0, 0}, want: bounds{0, 0, 0}},
		{given: bounds{0, 2, 4}, want: bounds{0, 2, 4}},
		{given: bounds{0, 2, none}, want: bounds{0, 2, 2}},
		{given: bounds{5, 1, 4}, refused: "replicas is 5, and must be within min_replicas 1 and max_replicas 4"},
		{given: bounds{1, 2, 4}, refused: "replicas is 1, and must be within min_replicas 2"},
		{given: bounds{1, none, 0}, refused: "min_replicas is 1, more than max_replicas 0"},
		{given: bounds{none, 4, 2}, refused: "max_replicas 2"},
		{given: bounds{0, 4, 2}, refused: "min_replicas is 4, more than max_replicas 2"},
		{given: bounds{1, 1, 1001}, refused: "deployment.max_replicas is 1001; at most 1000"},
	} {
		got, err := Normalize(tc.given.spec())
		check(t, tc.given, got, err, tc.want, tc.refused)
	}
}

// TestNormalizeTimes checks that times that only count for models that sleep are refused for others.
func TestNormalizeTimes(t *testing.T) {
	for _, test := range []struct {
		least, idleAfter, wakeWait uint32
		refused                    string
	}{
		{0, 60, 60, ""},
		{1, 60, 0, "idle_after is 60"},
		{1, 0, 60, "wake_wait is 60"},
		{0, 0, 86401, "wake_wait is 86401; at most 86400"},
	} {
		s := bounds{1, int(test.least), 1}.spec()
		s.IdleAfter, s.WakeWait = &test.idleAfter, &test.wakeWait
		_, err := Normalize(s)
		if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%v, want %q", err, test.refused)
		}
	}
}

// TestZeroIsNotAbsent checks that a field with value 0 is not treated as absent.
func TestZeroIsNotAbsent(t *testing.T) {
	for body, want := range map[string]string{
		`{"max_sequences": 0}`:        "deployment.max_sequences is 0; at least 1 is needed",
		`{"step_tokens": 0}`:          "deployment.step_tokens is 0",
		`{"block_tokens": 0}`:         "deployment.block_tokens is 0",
		`{"max_adapters": 0}`:         "deployment.max_adapters is 0",
		`{"max_adapter_rank": 0}`:     "deployment.max_adapter_rank is 0",
		`{"priority": 7}`:             "deployment.priority is 7",
		`{"max_waiting": 0}`:          "",
		`{"kv_blocks": 0}`:            "",
		`{"adapter_pages": 0}`:        "",
		`{"replicas": 0, "path": ""}`: "",
	} {
		req := decodeDeploy(t, body)
		merged, err := Merge(bounds{2, 1, 4}.spec(), req.GetDeployment(), req.GetResetFields())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(body, "path") {
			merged.Path = "p"
		}
		got, err := Normalize(merged)
		switch {
		case want == "" && (err != nil || strings.Contains(body, "max_waiting") && got.GetMaxWaiting() != 0):
			t.Errorf("%s: %v, %v", body, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", body, err, want)
		}
	}
}

func check(t *testing.T, given bounds, got *messages.DeploymentSpec, err error, want bounds, refused string) {
	t.Helper()
	switch {
	case refused == "" && (err != nil || boundsOf(got) != want):
		t.Errorf("%v: %v, %v; want %v", given, boundsOf(got), err, want)
	case refused != "" && (err == nil || !strings.Contains(err.Error(), refused)):
		t.Errorf("%v: error %v, want %q", given, err, refused)
	}
}

func TestMigrationPair(t *testing.T) {
	serving := messages.ReplicaState_REPLICA_STATE_SERVING
	replica := func(name string, state messages.ReplicaState, running uint32) *messages.ReplicaStatus {
		return &messages.ReplicaStatus{Name: name, Model: name[:1], State: state, Running: running}
	}
	all := []*messages.DeploymentStatus{
		{
			Replicas: []*messages.ReplicaStatus{
				replica("a-0", serving, 0),
				replica("a-1", serving, 7),
				replica("a-2", serving, 3),
				replica("a-3", messages.ReplicaState_REPLICA_STATE_LOADING, 0),
			},
		},
		{Replicas: []*messages.ReplicaStatus{replica("b-0", serving, 0)}},
	}
	for _, tc := range []struct{ from, to, want, refused string }{
		{from: "a-0", want: "a-2"},
		{from: "a-0", to: "a-1", want: "a-1"},
		{from: "c-0", refused: "no replica c-0"},
		{from: "a-0", to: "a-3", refused: "no serving replica a-3 of model a"},
		{from: "a-0", to: "b-0", refused: "no serving replica b-0 of model a"},
		{from: "b-0", refused: "model b has no other serving replica"},
	} {
		from, to, err := MigrationPair(all, tc.from, tc.to)
		switch {
		case tc.refused == "" && (err != nil || from.GetName() != tc.from || to.GetName() != tc.want):
			t.Errorf("%s to %q: %v, %v, %v", tc.from, tc.to, from, to, err)
		case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("%s to %q: error %v, want %q", tc.from, tc.to, err, tc.refused)
		}
	}
}
