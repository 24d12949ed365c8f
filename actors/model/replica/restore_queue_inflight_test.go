package replica_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"troupe/engine"
	"troupe/messages"
)

// TestLookupWhileStepInFlight checks that the lookup of a new sequence's blocks does not wait for
// the end of the step.
func TestLookupWhileStepInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unbuiltRemoteCluster(t, nil)
		var lookups atomic.Int64
		find := c.findBlocks
		c.findBlocks = func(q *messages.FindBlocks) proto.Message {
			lookups.Add(1)
			return find(q)
		}
		var inFlight atomic.Int64
		gate := make(chan struct{})
		c.beforeStep = func([]engine.Sequence) {
			inFlight.Add(1)
			<-gate
			inFlight.Add(-1)
		}
		buildCluster(c, size{64, 8}, size{64, 8})
		first := c.open(sampled(5, 20, 4))
		c.waitFor("a step in flight", func() bool { return inFlight.Load() == 1 })
		before := lookups.Load()
		second := c.open(sampled(6, 20, 4))
		c.settle()
		if lookups.Load() == before {
			t.Error("no lookup while the step is in flight")
		}
		close(gate)
		c.waitFor("both ends", func() bool { return first.done() && second.done() })
		c.checkEmpty()
	})
}
