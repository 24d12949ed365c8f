package gpu_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/gpu"
	"troupe/messages"
	"troupe/testkit"
)

// sharer plays a replica that shares the device.
type sharer struct {
	*testkit.Peer
	t       *testing.T
	gpu     *actor.PID
	name    string
	started uint64
}

func newSharer(t *testing.T, p *testkit.Peer, gpu *actor.PID, name string) *sharer {
	return &sharer{testkit.NewPeer(t, p.System(), name, nil), t, gpu, name, 1}
}

func (s *sharer) request() *messages.RequestTurn {
	return &messages.RequestTurn{Replica: s.name, Started: s.started, Estimate: durationpb.New(time.Millisecond),
		Class: messages.PriorityClass_PRIORITY_CLASS_STANDARD}
}

func (s *sharer) ask() {
	s.Send(s.gpu, s.request())
	synctest.Wait()
}

// end ends the turn after a step of 1 ms.
func (s *sharer) end(more bool) {
	time.Sleep(time.Millisecond)
	msg := &messages.TurnEnded{Replica: s.name, Started: s.started, Number: s.turn().GetNumber(),
		Used: durationpb.New(time.Millisecond)}
	if more {
		msg.Next = s.request()
	}
	s.Send(s.gpu, msg)
	synctest.Wait()
}

// turn returns the last turn that was granted; nil: none.
func (s *sharer) turn() *messages.TurnGranted {
	all := testkit.Got[*messages.TurnGranted](s.Peer)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// turns checks the number of turns that were granted.
func (s *sharer) turns(want int) {
	s.t.Helper()
	synctest.Wait()
	if all := testkit.Got[*messages.TurnGranted](s.Peer); len(all) != want {
		s.t.Errorf("%s got %d turns, want %d: %v", s.name, len(all), want, all)
	}
}

// recalls returns the numbers of the turns that were recalled.
func (s *sharer) recalls() (numbers []uint64) {
	synctest.Wait()
	for _, m := range testkit.Got[*messages.RecallTurn](s.Peer) {
		numbers = append(numbers, m.GetNumber())
	}
	return numbers
}

// share starts two replicas that have memory on a device.
func share(t *testing.T, change func(*gpu.Config), mw ...actor.ReceiverMiddleware) (a, b *sharer) {
	p, pid := playWith(t, &fakeModels{}, change, mw...)
	a, b = newSharer(t, p, pid, "m-0"), newSharer(t, p, pid, "n-0")
	a.Send(pid, load("1", "m-0", "m"))
	b.Send(pid, load("2", "n-0", "n"))
	synctest.Wait()
	return a, b
}

func unchanged(*gpu.Config) {}

// TestTurns checks that a turn is open until another replica asks, and that they take turns then.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := share(t, unchanged)
		a.ask()
		if !a.turn().GetOpen() || len(a.recalls()) > 0 {
			t.Fatalf("%v, want an open turn", a.turn())
		}
		b.ask()
		if got := a.recalls(); len(got) != 1 || got[0] != a.turn().GetNumber() {
			t.Errorf("recalled %v, want %v", got, a.turn())
		}
		b.turns(0)
		a.end(true)
		b.turns(1)
		b.end(true)
		a.turns(2)
		a.end(false)
		b.turns(2)
		if !b.turn().GetOpen() {
			t.Errorf("%v, want an open turn", b.turn())
		}
		a.Send(a.gpu, &messages.GetGpu{})
		all := last[status](t, a.Peer).GetTurns()
		if len(all) != 2 || all[0].GetTurns() != 2 || all[0].GetState() != "idle" || all[1].GetState() != "open" {
			t.Errorf("%v", all)
		}
	})
}

// TestTurnOfReplicaThatLeaves checks that a turn ends with its replica: when it stops, when its next
// incarnation reports, and when its memory is freed.
func TestTurnOfReplicaThatLeaves(t *testing.T) {
	for name, leave := range map[string]func(a *sharer){
		"stop": func(a *sharer) { a.Stop() },
		"restart": func(a *sharer) {
			a.started++
			a.Send(a.gpu, &messages.TurnEnded{Replica: a.name, Started: a.started})
		},
		"restart with work": func(a *sharer) {
			a.started++
			a.ask()
		},
		"unload": func(a *sharer) { a.Send(a.gpu, &messages.UnloadModel{Lease: a.name}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := share(t, unchanged)
				a.ask()
				b.ask()
				b.turns(0)
				leave(a)
				b.turns(1)
				a.started = 1
				a.end(true) // of the earlier incarnation
				if a.started = 2; name == "restart" {
					if n := b.recalls(); len(n) > 0 {
						t.Errorf("turns %v were recalled for an earlier incarnation", n)
					}
					a.ask()
					b.end(false)
					a.turns(2)
				}
			})
		})
	}
}

// TestTurnOverdue checks that a turn that lasts too long is reported, and that others run meanwhile.
func TestTurnOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		a, b := share(t, func(c *gpu.Config) {
			c.Publish = func(kind, subject, detail string) {
				if kind == "replica.overdue" {
					events = append(events, subject+" "+detail)
				}
			}
		})
		a.ask()
		time.Sleep(time.Minute) // no other replica waits
		b.ask()
		a.end(true)
		b.end(true)
		time.Sleep(1900 * time.Millisecond)
		if all := testkit.Got[*messages.ReplicaOverdue](a.Peer); len(all) > 0 {
			t.Errorf("overdue before its time: %v", all)
		}
		time.Sleep(200 * time.Millisecond)
		if all := testkit.Got[*messages.ReplicaOverdue](a.Peer); len(all) != 1 ||
			all[0].GetNumber() != a.turn().GetNumber() || all[0].GetEstimate().AsDuration() != time.Millisecond {
			t.Errorf("overdue: %v", all)
		}
		b.turns(2)
		a.Send(a.gpu, &messages.GetGpu{})
		if s := last[status](t, a.Peer).GetTurns()[0]; s.GetOverdue() != 1 || s.GetState() != "overdue" {
			t.Errorf("%v", s)
		}
		if len(events) != 1 || !strings.HasPrefix(events[0], "node/gpu-0 m-0 has held turn 3 for 2s") {
			t.Errorf("events %q", events)
		}
		a.end(true)
		b.end(true)
		a.turns(3)
	})
}

// TestTurnsAfterCrash crashes the actor. No turn is granted until every replica that has memory has
// ended its turn, or has left, or does not answer in time.
func TestTurnsAfterCrash(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, a, b *sharer){
		"both answer": func(t *testing.T, a, b *sharer) {
			b.Send(b.gpu, &messages.TurnEnded{Replica: b.name, Started: 1, Next: b.request()})
			b.turns(0)
			a.end(true)
			b.turns(1)
			b.end(true)
			a.turns(2)
		},
		"a stops": func(t *testing.T, a, b *sharer) {
			b.ask()
			b.turns(0)
			a.Stop()
			b.turns(1)
		},
		"a is silent": func(t *testing.T, a, b *sharer) {
			b.ask()
			time.Sleep(1900 * time.Millisecond)
			b.turns(0)
			time.Sleep(200 * time.Millisecond)
			b.turns(1)
			if all := testkit.Got[*messages.ReplicaOverdue](a.Peer); len(all) != 1 || all[0].GetNumber() != 0 {
				t.Errorf("overdue: %v", all)
			}
			a.end(true)
			b.end(true)
			a.turns(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := &testkit.Crash{On: "*messages.EvictWeights", Times: 1}
				a, b := share(t, unchanged, crash.Middleware)
				a.ask()
				first := a.turn().GetNumber()
				a.Send(a.gpu, &messages.EvictWeights{})
				for _, s := range []*sharer{a, b} {
					if got := s.recalls(); len(got) != 1 || got[0] != 0 {
						t.Fatalf("%s: recalled %v", s.name, got)
					}
				}
				then(t, a, b)
				if n := b.turn().GetNumber(); n <= first {
					t.Errorf("turn %d after turn %d", n, first)
				}
			})
		})
	}
}

// TestShareOfDeviceTime checks the share of the device's time that replicas report.
func TestShareOfDeviceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := share(t, unchanged)
		a.ask()
		b.ask()
		for i := range 60 {
			time.Sleep(time.Second)
			ran := time.Duration(i) * time.Second
			a.Send(a.gpu, &messages.KVReport{Lease: a.name, StepTime: durationpb.New(ran * 3 / 4)})
			b.Send(b.gpu, &messages.KVReport{Lease: b.name, StepTime: durationpb.New(ran / 4)})
		}
		a.Send(a.gpu, &messages.GetGpu{})
		all := last[status](t, a.Peer).GetTurns()
		for i, want := range []float64{0.75, 0.25} {
			if got := all[i].GetShare(); got < want-0.01 || got > want+0.01 {
				t.Errorf("%s has a share of %.3f, want %.2f", all[i].GetReplica(), got, want)
			}
		}
	})
}
