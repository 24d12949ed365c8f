package supervise_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// TestUnknownIsCounted checks that unknown messages are counted, that the log does not repeat them
// within a minute, and that notices of protoactor do not count.
func TestUnknownIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, registry, log := testkit.System(t), prometheus.NewRegistry(), &bytes.Buffer{}
		supervise.CountUnknown(sys, registry, zerolog.New(log))
		pid := sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			supervise.Unknown(ctx, "test")
		}))
		for range 3 {
			sys.Root.Send(pid, &messages.GetGpu{})
			sys.Root.Send(pid, &messages.GetReplica{})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
			t.Fatalf("%v, %v", families, err)
		}
		for _, m := range families[0].GetMetric() {
			if m.GetCounter().GetValue() != 3 {
				t.Errorf("%v", m)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d log lines:\n%s", n, log)
		}
		time.Sleep(time.Minute)
		sys.Root.Send(pid, &messages.GetGpu{})
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d log lines after a minute", n)
		}
	})
}
