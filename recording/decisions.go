package recording

import (
	"fmt"

	"troupe/core/route"
)

// Difference is a recorded decision that is another one now.
type Difference struct {
	Recorded Decision
	Now      route.Decision
}

// String describes the difference as a sentence.
func (d Difference) String() string {
	was := d.Recorded.Choice
	if was == "" {
		was = "refused"
	}
	return fmt.Sprintf("request %s at %.3f s on %s: recorded %s, decided now: %s", d.Recorded.ID, d.Recorded.At,
		d.Recorded.Node, was, d.Now.Why())
}

// CheckDecisions makes all recorded decisions again, from what the routers saw and with the policy of this program
// under the given weights, and returns those that differ.
func (r *Recording) CheckDecisions(w route.Weights) (different []Difference) {
	for _, d := range r.Decisions {
		if now := d.Saw.Route(w); now.Name != d.Choice {
			different = append(different, Difference{d, now})
		}
	}
	return different
}
