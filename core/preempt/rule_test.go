package preempt

import "testing"

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name string
		of   Candidate
		want Reason
	}{
		{"one of two, fixed number", Candidate{Wanted: 2, MinReplicas: 2, MaxReplicas: 2}, Allowed},
		{"the last one, fixed number", Candidate{Wanted: 1, MinReplicas: 1, MaxReplicas: 1}, BelowMinimum},
		{"the last one of two", Candidate{Wanted: 1, MinReplicas: 2, MaxReplicas: 2}, BelowMinimum},
		{"the last one, forced", Candidate{Wanted: 1, MinReplicas: 1, MaxReplicas: 1, Force: true}, Allowed},
		{"the last one, which no minimum keeps", Candidate{Wanted: 1, MinReplicas: 0, MaxReplicas: 4}, Allowed},
		{"at the minimum", Candidate{Wanted: 2, MinReplicas: 2, MaxReplicas: 4}, BelowMinimum},
		{"above the minimum", Candidate{Wanted: 3, MinReplicas: 2, MaxReplicas: 4}, Allowed},
		{"at the minimum, forced", Candidate{Wanted: 2, MinReplicas: 2, MaxReplicas: 4, Force: true}, Allowed},
		{"stopping", Candidate{Wanted: 3, Stopping: true, Force: true}, AlreadyStopping},
		{"critical", Candidate{Wanted: 3, Critical: true, Force: true}, NotAllowed},
	} {
		got := Check(test.of)
		if got.Reason != test.want || (got.Detail == "") != (test.want == Allowed) {
			t.Errorf("%s: %v (%q), want %v", test.name, got.Reason, got.Detail, test.want)
		}
	}
}
