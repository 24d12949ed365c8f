package supervise_test

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/testkit"
)

// parent does what a test tells it.
type parent struct{ child *actor.Props }

type do func(ctx actor.Context)

func (p *parent) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		if _, err := ctx.SpawnNamed(p.child, "child"); err != nil {
			panic(err)
		}
	case do:
		msg(ctx)
	}
}

// TestStoppedStaysStopped: a restart that comes after the stop begins no other life, whether the actor has ended already or waits for its children. Its
// parent learns that it ended, and can end itself.
func TestStoppedStaysStopped(t *testing.T) {
	for name, children := range map[string]int{"alone": 0, "with a child": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := testkit.System(t)
				release, ended := make(chan struct{}), make(chan struct{})
				grandchild := actor.PropsFromFunc(func(ctx actor.Context) {
					if _, ok := ctx.Message().(*actor.Stopping); ok {
						<-release // so that the restart finds the child waiting
					}
				})
				lives := 0
				child := supervise.Props(func() actor.Actor {
					return actor.ReceiveFunc(func(ctx actor.Context) {
						if _, ok := ctx.Message().(*actor.Started); ok {
							lives++
							for range children {
								ctx.Spawn(grandchild)
							}
						}
					})
				})
				pid := sys.Root.Spawn(supervise.Props(func() actor.Actor { return &parent{child} }))
				synctest.Wait()
				sys.Root.Send(pid, do(func(ctx actor.Context) {
					for _, c := range ctx.Children() {
						ctx.Watch(c)
						ctx.Stop(c)
						ctx.(actor.Supervisor).RestartChildren(c)
					}
				}))
				synctest.Wait()
				close(release)
				synctest.Wait()
				if _, alive := sys.ProcessRegistry.GetLocal(pid.GetId() + "/child"); alive || lives != 1 {
					t.Errorf("%d lives were begun; alive: %v", lives, alive)
				}
				go func() { _ = sys.Root.StopFuture(pid).Wait(); close(ended) }()
				<-ended
			})
		})
	}
}
