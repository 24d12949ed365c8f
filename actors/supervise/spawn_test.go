package supervise

import (
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/testkit"
)

// TestSendWhileSpawning sends messages to actors while they are spawned. A message either finds no
// actor yet or is handled; none reaches a mailbox without handlers.
func TestSendWhileSpawning(t *testing.T) {
	sys := testkit.System(t)
	for i := range 200 {
		name, handled := fmt.Sprintf("a-%d", i), make(chan struct{})
		props := Props(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if ctx.Message() == "last" {
					close(handled)
				}
			})
		})
		var senders sync.WaitGroup
		for range 2 {
			senders.Go(func() {
				for range 20 {
					sys.Root.Send(actor.NewPID(sys.Address(), name), "early")
				}
			})
		}
		pid, err := sys.Root.SpawnNamed(props, name)
		if err != nil {
			t.Fatal(err)
		}
		senders.Wait()
		sys.Root.Send(pid, "last")
		<-handled
	}
}
