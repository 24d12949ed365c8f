package chaos

import (
	"cmp"
	"context"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// notable is the minimum length of a pause that is explained.
const notable = time.Second

// account logs the longest pause of a step and the decisions about its stream. Times are relative
// to the fault. A stream through a stopped gateway pauses as long as the gateway is stopped.
func (r *run) account(ctx context.Context, s Step, fault time.Time, pause cluster.Pause) {
	since := func(t time.Time) float64 { return t.Sub(fault).Seconds() }
	where := pause.Gateway
	if where == s.On {
		where += ", which had the fault"
	}
	r.Note(
		"  longest pause %s, starting at %.2f s, of %s through %s", pause.Length.Round(time.Millisecond),
		since(pause.Began), pause.Stream, where,
	)
	if pause.Length < notable {
		return
	}
	decisions, err := r.Explain(ctx, pause.Stream)
	if err != nil { // a killed gateway has lost its records
		r.Note("    %v", err)
	}
	for _, d := range decisions {
		r.Note("    %.2f s: %s → %s", since(d.GetTime().AsTime()), cmp.Or(d.GetCause(), "a new sequence"), outcome(d))
	}
}

func outcome(d *messages.RouteDecision) string {
	if d.GetRefused() != nil {
		return "none: " + d.GetRefused().GetDetail()
	}
	return d.GetReplica() + ", " + d.GetWhy()
}
