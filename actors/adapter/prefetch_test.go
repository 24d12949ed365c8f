package adapter_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/messages"
)

// prefetch sends the planner's command, with the most popular adapter first.
func (s *stage) prefetch(keys ...string) {
	msg := &messages.PrefetchAdapters{}
	for i, key := range keys {
		msg.Adapters = append(msg.Adapters, &messages.AdapterAhead{Adapter: specOf(key), Uses: float64(10 - i)})
	}
	s.run(func(ctx actor.Context) { ctx.Send(s.pool, msg) })
}

// TestPrefetchLoadsAhead checks that adapters that the planner wants are loaded before any request, that the less
// popular one makes room, and that a folder that is gone does no harm.
func TestPrefetchLoadsAhead(t *testing.T) {
	inVirtualTime(t, 2, func(t *testing.T, s *stage) {
		s.memory.gone["d/1"] = true
		s.prefetch("d1@1", "a1@1", "b1@1")
		wait()
		if !s.memory.intact("a1@1") || !s.memory.intact("b1@1") || s.counts.GetPrefetches() != 2 ||
			s.counts.GetHits() != 0 {
			t.Fatalf("a, b: %v, %v; %v", s.memory.intact("a1@1"), s.memory.intact("b1@1"), s.counts)
		}
		s.pin("1", "a1@1")
		wait()
		s.expect("1", "a1@1", lora.Active)
		if s.memory.loads != 2 {
			t.Errorf("%d loads", s.memory.loads)
		}
		s.pin("2", "c1@1")
		wait()
		s.expect("2", "c1@1", lora.Active)
		if s.memory.intact("b1@1") {
			t.Error("b, the less popular one, is still there")
		}
		s.prefetch("b1@1") // all pages are in use
		wait()
		s.expect("1", "a1@1", lora.Active)
		s.expect("2", "c1@1", lora.Active)
	})
}
