package control

import (
	"strings"
	"testing"

	"troupe/messages"
)

// bounds are replicas, min_replicas and max_replicas.
type bounds [3]uint32

func (b bounds) spec() *messages.DeploymentSpec {
	return &messages.DeploymentSpec{Name: "a", Path: "p", Replicas: b[0], MinReplicas: b[1], MaxReplicas: b[2]}
}

func boundsOf(s *messages.DeploymentSpec) bounds {
	return bounds{s.GetReplicas(), s.GetMinReplicas(), s.GetMaxReplicas()}
}

func TestNormalizeBounds(t *testing.T) {
	for _, tc := range []struct {
		given, want bounds
		refused     string
	}{
		{given: bounds{0, 0, 0}, want: bounds{1, 1, 1}},
		{given: bounds{3, 0, 0}, want: bounds{3, 3, 3}},
		{given: bounds{0, 2, 0}, want: bounds{2, 2, 2}},
		{given: bounds{0, 0, 4}, want: bounds{1, 1, 4}},
		{given: bounds{2, 1, 4}, want: bounds{2, 1, 4}},
		{given: bounds{5, 1, 4}, refused: "replicas is 5, and must be within min_replicas 1 and max_replicas 4"},
		{given: bounds{1, 2, 4}, refused: "replicas is 1, and must be within min_replicas 2"},
		{given: bounds{0, 4, 2}, refused: "max_replicas 2"},
		{given: bounds{1, 1, 1001}, refused: "deployment.max_replicas is 1001; at most 1000"},
	} {
		got, err := Normalize(tc.given.spec())
		check(t, tc.given, got, err, tc.want, tc.refused)
	}
}

func TestScaled(t *testing.T) {
	for _, tc := range []struct {
		given, want bounds
		to          uint32
		refused     string
	}{
		{given: bounds{2, 2, 2}, to: 5, want: bounds{5, 5, 5}},
		{given: bounds{2, 0, 0}, to: 1, want: bounds{1, 1, 1}}, // stored by an earlier version
		{given: bounds{2, 1, 4}, to: 4, want: bounds{4, 1, 4}},
		{given: bounds{2, 1, 4}, to: 5, refused: "replicas is 5"},
		{given: bounds{2, 2, 2}, to: 0, refused: "replicas is missing or 0"},
	} {
		before := tc.given.spec()
		got, err := Scaled(before, tc.to)
		check(t, tc.given, got, err, tc.want, tc.refused)
		if boundsOf(before) != tc.given {
			t.Errorf("%v: its argument became %v", tc.given, before)
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

func TestPair(t *testing.T) {
	serving := messages.ReplicaState_REPLICA_STATE_SERVING
	replica := func(name string, state messages.ReplicaState, running uint32) *messages.ReplicaStatus {
		return &messages.ReplicaStatus{Name: name, Model: name[:1], State: state, Running: running}
	}
	all := []*messages.DeploymentStatus{
		{Replicas: []*messages.ReplicaStatus{replica("a-0", serving, 0), replica("a-1", serving, 7), replica("a-2", serving, 3),
			replica("a-3", messages.ReplicaState_REPLICA_STATE_LOADING, 0)}},
		{Replicas: []*messages.ReplicaStatus{replica("b-0", serving, 0)}},
	}
	for _, tc := range []struct{ from, to, want, refused string }{
		{from: "a-0", want: "a-2"},
		{from: "a-0", to: "a-1", want: "a-1"},
		{from: "c-0", refused: "no replica c-0"},
		{from: "a-0", to: "a-3", refused: "no replica a-3 of model a serves"},
		{from: "a-0", to: "b-0", refused: "no replica b-0 of model a serves"},
		{from: "b-0", refused: "no other replica of model b serves"},
	} {
		from, to, err := Pair(all, tc.from, tc.to)
		switch {
		case tc.refused == "" && (err != nil || from.GetName() != tc.from || to.GetName() != tc.want):
			t.Errorf("%s to %q: %v, %v, %v", tc.from, tc.to, from, to, err)
		case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("%s to %q: error %v, want %q", tc.from, tc.to, err, tc.refused)
		}
	}
}
