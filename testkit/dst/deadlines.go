package dst

import (
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// deadlineSlack is the time within which a session notices that its deadline has passed.
const deadlineSlack = 2 * time.Second

// setDeadline gives a call a deadline: one of three after 20 to 50 s, the others after an hour.
func (c *Call) setDeadline(rng *rand.Rand, opens time.Time) {
	left := time.Hour
	if rng.IntN(3) == 0 {
		left = 20*time.Second + time.Duration(rng.Int64N(int64(30*time.Second)))
	}
	c.Sequence.Deadline = timestamppb.New(opens.Add(left))
}

// checkDeadline checks that a call ended by its deadline, unless its node could not run.
func (c *cluster) checkDeadline(call *Call) {
	until := call.Sequence.GetDeadline().AsTime().Add(deadlineSlack)
	for _, f := range c.result.Faults {
		if f.Kind == Pause && f.Node == call.node {
			until = until.Add(f.For)
		}
	}
	if ended := call.endedAt(); ended.After(until) {
		c.fail("%s on %s ended %v after its deadline", call.ID, call.node,
			ended.Sub(call.Sequence.GetDeadline().AsTime()))
	}
}

// endedAt returns the time at which the call ended.
func (c *Call) endedAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended() {
		return time.Now()
	}
	return c.end
}
