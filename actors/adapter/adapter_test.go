package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// inVirtualTime runs a test in a synctest bubble.
func inVirtualTime(t *testing.T, pages int, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, pages)
		test(t, s)
		s.end()
		for _, wrong := range s.memory.wrong {
			t.Error(wrong)
		}
	})
}

// wait waits until the copies in flight have ended.
func wait() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// expect checks the state of an adapter as a request sees it, and that a resident adapter is
// intact.
func (s *stage) expect(request, key string, want lora.State) {
	s.t.Helper()
	if got, why := s.pin(request, key); got != want || got == lora.Active && !s.memory.intact(key) {
		s.t.Errorf("%s of %s: %s, %+v, want %s; intact: %v", request, key, got, why, want, s.memory.intact(key))
	}
}

// refusal returns the only refusal.
func (s *stage) refusal() *messages.Refused {
	s.t.Helper()
	for _, r := range s.refused {
		return r
	}
	s.t.Fatal("nothing was refused")
	return nil
}

func TestPinLoadsOnce(t *testing.T) {
	inVirtualTime(t, 4, func(t *testing.T, s *stage) {
		s.expect("1", "a1@1", lora.Loading)
		s.expect("2", "a1@1", lora.Loading)
		wait()
		s.expect("1", "a1@1", lora.Active)
		s.expect("2", "a1@1", lora.Active)
		s.unpin("1")
		s.unpin("2")
		if state, tier := s.pins.State("a1@1"); state != lora.Idle || tier != lora.GPU {
			t.Errorf("after the last unpin: %s on %s", state, tier)
		}
		s.pin("3", "a1@1")
		s.expect("3", "a1@1", lora.Active)
		if s.memory.loads != 1 {
			t.Errorf("loaded %d times", s.memory.loads)
		}
	})
}

// TestIdleAdapterIsEvictedForRoom checks that an idle adapter is evicted and a pinned one is not,
// and that a request that was refused for lack of room is notified when there is room.
func TestIdleAdapterIsEvictedForRoom(t *testing.T) {
	inVirtualTime(t, 2, func(t *testing.T, s *stage) {
		s.pin("1", "a1@1")
		s.pin("2", "b1@1")
		wait()
		s.pin("3", "c1@1")
		wait()
		if _, why := s.pin("3", "c1@1"); why == nil || why.Reason != lora.NoRoom {
			t.Fatalf("with all pages in use: %+v", why)
		}
		s.stepping = true
		s.unpin("1") // while a step reads it
		s.pin("3", "c1@1")
		wait()
		if !s.memory.intact("a1@1") {
			t.Fatal("an adapter that a step reads was evicted")
		}
		s.stepping = false
		s.pin("3", "c1@1")
		wait()
		s.pin("3", "c1@1") // retries
		wait()
		s.expect("3", "c1@1", lora.Active)
		s.expect("2", "b1@1", lora.Active)
		if s.memory.intact("a1@1") {
			t.Error("two adapters are in two pages beside a third")
		}
	})
}

// TestLostDeviceStopsPool checks that no request is refused for its adapter if the device is lost
// during the load, since the adapter can be loaded elsewhere. The pool stops, and with it its
// replica, and the GPU actor learns of it.
func TestLostDeviceStopsPool(t *testing.T) {
	inVirtualTime(t, 2, func(t *testing.T, s *stage) {
		s.memory.onCopy = func(string) error { return fmt.Errorf("copy: %w", cuda.ErrDeviceLost) }
		s.pin("1", "a1@1")
		wait()
		if len(s.refused) > 0 || !s.lost.Load() {
			t.Errorf("refused %v; stopped: %v", s.refused, s.lost.Load())
		}
		if told := testkit.Got[*messages.DeviceFailed](s.gpu); len(told) != 1 || told[0].GetLease() != "m-0" {
			t.Errorf("the GPU actor received %v", told)
		}
	})
}

// TestUnloadableAdapterIsRefused checks the reason of the refusal, and that nothing leaks.
func TestUnloadableAdapterIsRefused(t *testing.T) {
	fails := func(load func(string) error) func(*stage) { return func(s *stage) { s.memory.onCopy = load } }
	for name, tc := range map[string]struct {
		key    string
		breaks func(*stage)
		want   messages.Reason
	}{
		"no memory": {"a1@1", fails(func(string) error { return fmt.Errorf("host memory: %w", cuda.ErrOutOfMemory) }),
			messages.Reason_REASON_NO_MEMORY},
		"damaged": {"a1@1", fails(func(string) error { return errors.New("tensor q_proj: the file is damaged") }),
			messages.Reason_REASON_LOAD_FAILED},
		"crashes":   {"a1@1", fails(func(string) error { panic("copy") }), messages.Reason_REASON_LOAD_FAILED},
		"vanished":  {"a1@1", func(s *stage) { s.memory.gone["a/1"] = true }, messages.Reason_REASON_LOAD_FAILED},
		"too large": {"a9@1", func(*stage) {}, messages.Reason_REASON_NO_MEMORY},
	} {
		inVirtualTime(t, 2, func(t *testing.T, s *stage) {
			tc.breaks(s)
			s.pin("1", tc.key)
			wait()
			if got := s.refusal(); got.GetReason() != tc.want || got.GetDetail() == "" {
				t.Errorf("%s: refused with %v", name, got)
			}
			s.unpin("1")
			s.memory.onCopy, s.memory.gone = nil, map[string]bool{}
			s.pin("2", "b2@1") // all pages
			wait()
			s.expect("2", "b2@1", lora.Active)
		})
	}
}

// TestPoolRecoversAfterCrash checks that loaded adapters are recovered, that pinned ones stay, and
// that pending loads complete.
func TestPoolRecoversAfterCrash(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, s *stage) {
		s.pin("1", "a1@1")
		s.pin("2", "b1@1")
		wait()
		s.unpin("2")
		s.pin("3", "c1@1") // being loaded
		s.run(func(ctx actor.Context) { ctx.(actor.Supervisor).RestartChildren(s.pool) })
		s.pin("4", "d1@1") // evicts b rather than a
		wait()
		s.expect("1", "a1@1", lora.Active)
		s.expect("3", "c1@1", lora.Active)
		s.expect("4", "d1@1", lora.Active)
		if s.life != 2 || s.memory.intact("b1@1") {
			t.Errorf("incarnation %d, b is intact: %v", s.life, s.memory.intact("b1@1"))
		}
	})
}

// TestRestartingPoolStartsNoCopy checks that a pool that waits for a copy to end before its restart
// starts no other copy.
func TestRestartingPoolStartsNoCopy(t *testing.T) {
	inVirtualTime(t, 2, func(t *testing.T, s *stage) {
		s.memory.onCopy = func(string) error { time.Sleep(100 * time.Millisecond); return nil }
		s.pin("1", "a1@1")
		time.Sleep(20 * time.Millisecond)
		s.run(func(ctx actor.Context) { ctx.(actor.Supervisor).RestartChildren(s.pool) })
		s.pin("2", "b1@1")
		wait()
		s.expect("1", "a1@1", lora.Active)
		s.expect("2", "b1@1", lora.Active)
		if s.life != 2 {
			t.Errorf("incarnation %d", s.life)
		}
	})
}

// TestSlotStoppedDuringRestartStartsNoCopy checks that a slot that crashed and is stopped before
// its restart copies nothing, because its pages may be reused.
func TestSlotStoppedDuringRestartStartsNoCopy(t *testing.T) {
	inVirtualTime(t, 1, func(t *testing.T, s *stage) {
		// both arrive before the copy has ended
		s.memory.onCopy = func(string) error { time.Sleep(100 * time.Millisecond); return context.Canceled }
		s.pin("1", "a1@1")
		time.Sleep(20 * time.Millisecond)
		s.run(func(ctx actor.Context) {
			slot := actor.NewPID(s.pool.GetAddress(), s.pool.GetId()+"/slot-0")
			ctx.Stop(slot)
			ctx.(actor.Supervisor).RestartChildren(slot)
		})
		wait()
		if s.memory.loads != 1 {
			t.Errorf("%d copies were started", s.memory.loads)
		}
		s.memory.onCopy = nil
		s.unpin("1")
		s.pin("2", "b1@1")
		wait()
		s.expect("2", "b1@1", lora.Active)
	})
}

// TestReplicaSuccessorFindsAdapters checks that a replica's successor finds the adapters, all
// unpinned.
func TestReplicaSuccessorFindsAdapters(t *testing.T) {
	inVirtualTime(t, 2, func(t *testing.T, s *stage) {
		s.pin("1", "a1@1")
		s.pin("2", "b1@1")
		wait()
		s.end()
		s.begin()
		s.pin("1", "a1@1")
		s.expect("1", "a1@1", lora.Active)
		if s.memory.loads != 2 {
			t.Errorf("%d loads: a resident adapter was loaded again", s.memory.loads)
		}
		s.pin("3", "c1@1")
		wait()
		s.expect("3", "c1@1", lora.Active)
	})
}

// TestForgetWaitsForLastUser checks that the last user of a forgotten adapter finishes, that new
// requests for it are refused, and that its memory is then freed.
func TestForgetWaitsForLastUser(t *testing.T) {
	inVirtualTime(t, 1, func(t *testing.T, s *stage) {
		s.pin("1", "a1@1")
		wait()
		s.run(func(ctx actor.Context) { ctx.Send(s.pool, &messages.ForgetAdapter{Adapter: specOf("a1@1")}) })
		s.expect("1", "a1@1", lora.Active)
		s.pin("2", "a1@1")
		if got := s.refusal(); got.GetReason() != messages.Reason_REASON_NOT_FOUND {
			t.Errorf("new request: %v", got)
		}
		s.unpin("1")
		wait()
		if len(s.memory.Held()) != 0 {
			t.Error("the adapter is still in memory")
		}
		s.pin("3", "b1@1")
		wait()
		s.expect("3", "b1@1", lora.Active)
	})
}
