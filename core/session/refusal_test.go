package session

import "testing"

// TestFinalReasons checks which reasons end a session without another try, by what was refused.
func TestFinalReasons(t *testing.T) {
	type final struct{ route, submit, interrupt bool }
	for reason, want := range map[Reason]final{
		Other:          {true, true, false},
		NotReady:       {false, false, false},
		Draining:       {true, false, false},
		WeightsDiffer:  {true, false, false},
		EngineFailed:   {true, true, true},
		LoadFailed:     {true, true, true},
		NoMemory:       {true, true, true},
		QueueFull:      {true, true, true},
		NotFound:       {true, true, true},
		Unsupported:    {true, true, true},
		Numeric:        {true, true, true},
		DeadlinePassed: {true, true, false},
	} {
		refusal := Refusal{Reason: reason}
		routing, submitted, serving := New(Config{}), New(Config{}), New(Config{})
		for _, m := range []*Machine{routing, submitted, serving} {
			m.Start(0, "", epoch)
		}
		for _, m := range []*Machine{submitted, serving} {
			m.Routed(Replica{Name: "m-0", Actor: Actor{"n", "m-0"}}, epoch)
		}
		routing.RouteRefused(refusal, epoch)
		submitted.SubmitRefused(Actor{}, refusal, epoch)
		serving.Interrupted(Actor{}, 0, refusal, epoch)
		got := final{routing.State() == Ended, submitted.State() == Ended, serving.State() == Ended}
		if got != want {
			t.Errorf("%s: final at %+v, want %+v", reason, got, want)
		}
	}
}
