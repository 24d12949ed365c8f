package gateway_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit"
)

// TestGatewaysExchangeUsage checks that a key's usage at one gateway counts at the other within a
// second, even after a crash of the usage actor. It stops counting when that gateway leaves.
// Reports of nodes that are not members are ignored.
func TestGatewaysExchangeUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := testkit.System(t)
		keys := openKeys(t,
			fmt.Sprintf("- {name: ann, key: %s, limits: {requests: 2, requests_per_minute: 6}}\n", anyModel))
		members := &messages.MembersChanged{Members: []*messages.Member{{Name: "a"}, {Name: "b"}}}
		strategy := supervise.Strategy(nil)
		worlds, actors := map[string]*testGateway{}, map[string]*actor.PID{}
		var mu sync.Mutex // guards actors
		peer := func(m *messages.Member) *actor.PID {
			mu.Lock()
			defer mu.Unlock()
			return actors[m.GetName()]
		}
		var crashed atomic.Bool
		for _, node := range []string{"a", "b"} {
			shares := gateway.NewQuotas(0, nil)
			worlds[node] = newTestGateway(t, noOutput, func(c *gateway.Config) { c.Keys, c.Quotas = keys, shares })
			pid := testkit.Spawn(t, sys, node, strategy, gateway.UsageProps(gateway.UsageConfig{
				Node: node, Quotas: shares, Members: func() *messages.MembersChanged { return members },
				Peer: peer,
			}), func(next actor.ReceiverFunc) actor.ReceiverFunc {
				return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
					if m, ok := env.Message.(*messages.UsageAnnounced); ok && m.GetNode() == "b" &&
						!crashed.Swap(true) {
						panic("test: the usage actor crashes")
					}
					next(ctx, env)
				}
			})
			mu.Lock()
			actors[node] = pid
			mu.Unlock()
			// The actor that started first did not know the second.
			for _, other := range actors {
				sys.Root.Send(other, members)
			}
		}
		ask := func(node string) chan int {
			done := make(chan int, 1)
			go func() {
				done <- worlds[node].postAs(anyModel, `{"model":"kjv","prompt":"a","timeout":20}`).Code
			}()
			synctest.Wait()
			return done
		}
		ask("a")
		ask("b")
		time.Sleep(2500 * time.Millisecond) // one report is lost in the crash
		synctest.Wait()
		if !crashed.Load() {
			t.Fatal("nothing crashed")
		}
		for node := range worlds {
			if code := <-ask(node); code != 429 {
				t.Errorf("%s: a third request in flight gets %d", node, code)
			}
		}
		sys.Root.Send(actors["a"], &messages.UsageAnnounced{
			Node:    "stranger",
			Clients: []*messages.ClientUsage{{Client: gateway.KeyClientName("ann"), RequestsInFlight: 50}},
		})
		sys.Root.Send(actors["a"], &messages.MembersChanged{Members: members.Members[:1]})
		synctest.Wait()
		third := ask("a")
		select {
		case code := <-third:
			t.Errorf("after b left: %d", code)
		default: // it is being served
		}
		time.Sleep(30 * time.Second)
	})
}
