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
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, pages int, test func(t *testing.T, s *stage)) {
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

// wait lets copies end.
func wait() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// want checks what a request is told, and that what is said to be there is.
func (s *stage) want(request, key string, want lora.State) {
	s.t.Helper()
	if got, why := s.pin(request, key); got != want || got == lora.Active && !s.memory.whole(key) {
		s.t.Errorf("%s of %s: %s, %+v, not %s; whole: %v", request, key, got, why, want, s.memory.whole(key))
	}
}

// refusal returns the one refusal that there was.
func (s *stage) refusal() *messages.Refused {
	s.t.Helper()
	for _, r := range s.refused {
		return r
	}
	s.t.Fatal("nothing was refused")
	return nil
}

func TestPinLoadsOnce(t *testing.T) {
	bubble(t, 4, func(t *testing.T, s *stage) {
		s.want("1", "a1@1", lora.Loading)
		s.want("2", "a1@1", lora.Loading)
		wait()
		s.want("1", "a1@1", lora.Active)
		s.want("2", "a1@1", lora.Active)
		s.unpin("1")
		s.unpin("2")
		if state, tier := s.desk.State("a1@1"); state != lora.Idle || tier != lora.GPU {
			t.Errorf("after the last unpin it is %s on %s", state, tier)
		}
		s.pin("3", "a1@1")
		s.want("3", "a1@1", lora.Active)
		if s.memory.loads != 1 {
			t.Errorf("it was loaded %d times", s.memory.loads)
		}
	})
}

// TestRoomIsMade: an idle adapter gives way, one in use does not, and who found no room is told when there is some.
func TestRoomIsMade(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *stage) {
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
		if !s.memory.whole("a1@1") {
			t.Fatal("what a step reads was evicted")
		}
		s.stepping = false
		s.pin("3", "c1@1")
		wait()
		s.want("3", "c1@1", lora.Loading) // it asks again
		wait()
		s.want("3", "c1@1", lora.Active)
		s.want("2", "b1@1", lora.Active)
		if s.memory.whole("a1@1") {
			t.Error("two adapters are in two pages beside a third")
		}
	})
}

// TestWhatCanNotBeLoadedIsRefused, with the reason, and leaves nothing.
func TestWhatCanNotBeLoadedIsRefused(t *testing.T) {
	fails := func(load func(string) error) func(*stage) { return func(s *stage) { s.memory.load = load } }
	for name, tc := range map[string]struct {
		key    string
		breaks func(*stage)
		want   messages.Reason
	}{
		"no memory": {"a1@1", fails(func(string) error { return fmt.Errorf("host memory: %w", cuda.ErrOutOfMemory) }), messages.Reason_REASON_NO_MEMORY},
		"damaged":   {"a1@1", fails(func(string) error { return errors.New("tensor q_proj: the file is damaged") }), messages.Reason_REASON_LOAD_FAILED},
		"crashes":   {"a1@1", fails(func(string) error { panic("copy") }), messages.Reason_REASON_LOAD_FAILED},
		"lost":      {"a1@1", fails(func(string) error { return cuda.ErrDeviceLost }), messages.Reason_REASON_LOAD_FAILED},
		"vanished":  {"a1@1", func(s *stage) { s.memory.gone["a/1"] = true }, messages.Reason_REASON_LOAD_FAILED},
		"too large": {"a9@1", func(*stage) {}, messages.Reason_REASON_NO_MEMORY},
	} {
		bubble(t, 2, func(t *testing.T, s *stage) {
			tc.breaks(s)
			s.pin("1", tc.key)
			wait()
			if got := s.refusal(); got.GetReason() != tc.want || got.GetDetail() == "" {
				t.Errorf("%s: refused with %v", name, got)
			}
			s.unpin("1")
			s.memory.load, s.memory.gone = nil, map[string]bool{}
			s.pin("2", "b2@1") // all pages
			wait()
			s.want("2", "b2@1", lora.Active)
		})
	}
}

// TestPoolCrash: what was there is there, what is in use stays, and what was on its way comes.
func TestPoolCrash(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *stage) {
		s.pin("1", "a1@1")
		s.pin("2", "b1@1")
		wait()
		s.unpin("2")
		s.pin("3", "c1@1") // on its way
		s.run(func(ctx actor.Context) { ctx.(actor.Supervisor).RestartChildren(s.pool) })
		s.pin("4", "d1@1") // b gives way, not a
		wait()
		s.want("1", "a1@1", lora.Active)
		s.want("3", "c1@1", lora.Active)
		s.want("4", "d1@1", lora.Active)
		if s.life != 2 || s.memory.whole("b1@1") {
			t.Errorf("life %d, b is there: %v", s.life, s.memory.whole("b1@1"))
		}
	})
}

// TestAskedWhileItRestarts: a pool that is about to be restarted, and waits for a copy to end, begins no other one.
func TestAskedWhileItRestarts(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *stage) {
		s.memory.load = func(string) error { time.Sleep(100 * time.Millisecond); return nil }
		s.pin("1", "a1@1")
		time.Sleep(20 * time.Millisecond)
		s.run(func(ctx actor.Context) { ctx.(actor.Supervisor).RestartChildren(s.pool) })
		s.pin("2", "b1@1")
		wait()
		s.want("1", "a1@1", lora.Active)
		s.want("2", "b1@1", lora.Active)
		if s.life != 2 {
			t.Errorf("life %d", s.life)
		}
	})
}

// TestStoppedWhileItRestarts: a slot that crashed, and is stopped before it is restarted, copies nothing: its pages may be another's.
func TestStoppedWhileItRestarts(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *stage) {
		s.memory.load = func(string) error { time.Sleep(100 * time.Millisecond); return context.Canceled } // so that both come before it has ended
		s.pin("1", "a1@1")
		time.Sleep(20 * time.Millisecond)
		s.run(func(ctx actor.Context) {
			slot := actor.NewPID(s.pool.GetAddress(), s.pool.GetId()+"/slot-0")
			ctx.Stop(slot)
			ctx.(actor.Supervisor).RestartChildren(slot)
		})
		wait()
		if s.memory.loads != 1 {
			t.Errorf("%d copies were begun", s.memory.loads)
		}
		s.memory.load = nil
		s.unpin("1")
		s.pin("2", "b1@1")
		wait()
		s.want("2", "b1@1", lora.Active)
	})
}

// TestReplicaCrash: its successor finds the adapters, and nobody in their use.
func TestReplicaCrash(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *stage) {
		s.pin("1", "a1@1")
		s.pin("2", "b1@1")
		wait()
		s.end()
		s.begin()
		s.pin("1", "a1@1")
		s.want("1", "a1@1", lora.Active)
		if s.memory.loads != 2 {
			t.Errorf("%d loads: what was there was read again", s.memory.loads)
		}
		s.pin("3", "c1@1")
		wait()
		s.want("3", "c1@1", lora.Active)
	})
}

// TestForget: the last user finishes, new ones are refused, then the memory is free.
func TestForget(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *stage) {
		s.pin("1", "a1@1")
		wait()
		s.run(func(ctx actor.Context) { ctx.Send(s.pool, &messages.ForgetAdapter{Adapter: specOf("a1@1")}) })
		s.want("1", "a1@1", lora.Active)
		s.pin("2", "a1@1")
		if got := s.refusal(); got.GetReason() != messages.Reason_REASON_NOT_FOUND {
			t.Errorf("a new user: %v", got)
		}
		s.unpin("1")
		wait()
		if len(s.memory.Held())+len(s.memory.Staged()) != 0 {
			t.Error("it is still in memory")
		}
		s.pin("3", "b1@1")
		wait()
		s.want("3", "b1@1", lora.Active)
	})
}
