package chaos

import (
	"cmp"
	"context"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// notable is how long a pause is at least that is accounted for.
const notable = time.Second

// account notes the longest pause of a step, and what its stream waited for. Times are those since the fault. A stream through a gateway that is
// stopped pauses for as long as that is.
func (r *run) account(ctx context.Context, s Step, fault time.Time, pause cluster.Pause) {
	since := func(t time.Time) float64 { return t.Sub(fault).Seconds() }
	where := pause.Gateway
	if where == s.On {
		where += ", where the fault was"
	}
	r.Note("  longest pause %s, from %.2f s on, of %s through %s", pause.Length.Round(time.Millisecond), since(pause.Began), pause.Stream, where)
	if pause.Length < notable {
		return
	}
	decisions, err := r.Explain(ctx, pause.Stream)
	if err != nil { // a gateway that was killed has taken what it knew along
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
