package adapter_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/adapter"
	"troupe/actors/supervise"
	"troupe/core/lora"
	"troupe/messages"
	"troupe/testkit"
)

// stage is a pool with its slots and a fakeStore. The test acts as the replica, with a
// lora.PinClient.
type stage struct {
	t      *testing.T
	memory *fakeStore
	sys    *actor.ActorSystem
	parent *actor.PID
	lives  int

	pool     *actor.PID
	life     uint64 // incarnation of the pool, once it is ready
	pins     *lora.PinClient
	stepping bool
	refused  map[string]*messages.Refused // by pin
	lost     atomic.Bool                  // the pool crashed too often
	gpu      *testkit.Peer
	cache    *actor.PID // the host cache; nil: none
	counts   *messages.AdapterCounts
	spare    atomic.Int64 // pages that the gpu actor has for the pool
	hung     atomic.Bool  // the gpu actor does not answer

	crashPool, crashSlot atomic.Bool // on their next message
}

// do is a function that the replica runs.
type do func(ctx actor.Context)

func newStage(t *testing.T, pages int) *stage {
	s := &stage{t: t, memory: newMemory(pages), sys: testkit.System(t)}
	s.gpu = testkit.NewPeer(t, s.sys, "gpu", s.answerReport)
	s.begin()
	return s
}

// begin starts an incarnation of the replica.
func (s *stage) begin() {
	s.lives++
	s.life, s.stepping = 0, false
	s.lost.Store(false)
	s.pins, s.refused = lora.NewPinClient(fmt.Sprint(s.lives)), map[string]*messages.Refused{}
	s.parent = s.sys.Root.Spawn(actor.PropsFromFunc(s.receive, actor.WithSupervisor(supervise.Strategy(nil))))
	synctest.Wait()
}

// answerReport grants pages as far as there are any.
func (s *stage) answerReport(m proto.Message) proto.Message {
	report, ok := m.(*messages.AdapterReport)
	if !ok || report.GetWantedPages() == 0 || s.hung.Load() {
		return nil
	}
	n := min(int64(report.GetWantedPages()), s.spare.Load())
	s.spare.Add(-n)
	s.memory.grow(int(n))
	return &messages.GrowAdapters{Lease: "m-0", Pages: uint32(len(s.memory.Pages()))}
}

// end stops the replica and all its children. Pending timers then reach no actor.
func (s *stage) end() {
	_ = s.sys.Root.StopFuture(s.parent).Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

func (s *stage) props() *actor.Props {
	crash := func(flag *atomic.Bool) actor.ReceiverMiddleware {
		return func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
				switch env.Message.(type) {
				case *actor.Restarting, *actor.Stopping, *actor.Stopped: // already stopping
				default:
					if !flag.CompareAndSwap(true, false) {
						break
					}
					panic(fmt.Sprintf("injected crash on %T", env.Message))
				}
				next(ctx, env)
			}
		}
	}
	return adapter.Props(adapter.Config{
		GPU: s.gpu.PID, Lease: "m-0", Model: "m", HostCache: s.cache,
		Open:     func() (adapter.Store, error) { return s.memory, nil },
		Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
		Slot: func(cfg adapter.SlotConfig) *actor.Props {
			return adapter.SlotProps(cfg).Configure(actor.WithReceiverMiddleware(crash(&s.crashSlot), testkit.Wire))
		},
	}).Configure(actor.WithReceiverMiddleware(crash(&s.crashPool), testkit.Wire))
}

func (s *stage) receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		pool, err := ctx.SpawnNamed(s.props(), "adapters")
		if err != nil {
			s.t.Error(err)
		}
		s.pool = pool
	case *messages.AdaptersReady:
		s.life = msg.GetIncarnation()
		adopt := &messages.AdoptPins{Incarnation: s.life}
		for _, a := range s.pins.OnPoolRestart() {
			adopt.Pins = append(adopt.Pins, &messages.PinAdapter{RequestId: a.Name, Adapter: specOf(a.Adapter)})
		}
		ctx.Send(s.pool, adopt)
		s.flush(ctx)
	case *messages.PinAdapterResult:
		if r := msg.GetRefused(); r != nil {
			s.refused[msg.GetRequestId()] = r
			reason := lora.Failed
			if r.GetReason() == messages.Reason_REASON_QUEUE_FULL {
				reason = lora.NoRoom
			}
			s.pins.OnPinResult(msg.GetRequestId(), &lora.Refusal{Reason: reason, Detail: r.GetDetail()})
			return
		}
		s.pins.OnPinResult(msg.GetRequestId(), nil)
	case *messages.AdaptersChanged:
		s.counts = msg.GetCounts()
		for _, a := range msg.GetAdapters() {
			s.pins.OnState((&messages.AdapterSpec{Name: a.GetName(), Revision: a.GetRevision()}).Key(), lora.Location{
				State: lora.State(a.GetState() - messages.AdapterState_ADAPTER_STATE_ABSENT),
				Tier:  lora.Tier(a.GetLocation() - messages.AdapterLocation_ADAPTER_LOCATION_DISK),
			})
		}
	case *actor.Terminated:
		s.lost.Store(true)
	case do:
		msg(ctx)
		s.flush(ctx)
	}
}

func (s *stage) flush(ctx actor.Context) {
	if s.life == 0 {
		return
	}
	for _, a := range s.pins.Drain(s.stepping) {
		if a.Unpin {
			ctx.Send(s.pool, &messages.UnpinAdapter{RequestId: a.Name})
		} else {
			ctx.Send(s.pool, &messages.PinAdapter{RequestId: a.Name, Adapter: specOf(a.Adapter)})
		}
	}
}

// run makes the replica run f, and waits until all goroutines are blocked.
func (s *stage) run(f do) {
	s.sys.Root.Send(s.parent, f)
	synctest.Wait()
}

// pin requests an adapter and returns the answer of the PinClient.
func (s *stage) pin(request, key string) (state lora.State, why *lora.Refusal) {
	s.run(func(actor.Context) { state, why = s.pins.Pin(request, key) })
	return state, why
}

func (s *stage) unpin(request string) { s.run(func(actor.Context) { s.pins.Unpin(request) }) }

// specOf returns the spec of an adapter by its key: "a2@1" has two pages.
func specOf(key string) *messages.AdapterSpec {
	spec := messages.AdapterOf(key)
	spec.Path = spec.GetName()[:1] + "/" + spec.GetName()[1:]
	return spec
}
