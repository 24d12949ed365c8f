package gpu

import (
	"testing"
	"time"

	"troupe/actors/model/replica/wire"
	"troupe/core/turns"
)

// TestTurnRequestsArrive checks that the device gets all that a replica says about the turn that it asks for.
func TestTurnRequestsArrive(t *testing.T) {
	want := turns.Request{Class: 2, Deadline: time.Unix(1, 2).UTC(), Estimate: time.Second, Prompt: true, Weight: 3}
	if got := turnOf(wire.Turns{Replica: "m-0", Started: 1}.Request(want)); got != want {
		t.Errorf("%+v arrives as %+v", want, got)
	}
}
