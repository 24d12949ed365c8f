package supervise_test

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/testkit"
)

// parent runs the functions that the test sends it.
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

// TestStoppedActorIsNotRestarted checks that a restart after the stop starts no incarnation,
// whether the actor has ended or waits for its children. The parent learns of the end and can stop
// too.
func TestStoppedActorIsNotRestarted(t *testing.T) {
	for name, children := range map[string]int{"alone": 0, "with a child": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := testkit.System(t)
				release, ended := make(chan struct{}), make(chan struct{})
				grandchild := actor.PropsFromFunc(func(ctx actor.Context) {
					if _, ok := ctx.Message().(*actor.Stopping); ok {
						<-release // the child is still waiting for it when the restart arrives
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
					t.Errorf("%d incarnations were started; alive: %v", lives, alive)
				}
				go func() { _ = sys.Root.StopFuture(pid).Wait(); close(ended) }()
				<-ended
			})
		})
	}
}

// TestPanicWhileStopping checks that an actor that panics while it stops still ends, with its child,
// and that its parent learns of it.
func TestPanicWhileStopping(t *testing.T) {
	for name, when := range map[string]func(message any) bool{
		"in Stopping":   func(m any) bool { _, ok := m.(*actor.Stopping); return ok },
		"in Terminated": func(m any) bool { _, ok := m.(*actor.Terminated); return ok },
		"in Stopped":    func(m any) bool { _, ok := m.(*actor.Stopped); return ok },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := testkit.System(t)
				panics := 0
				child := supervise.Props(func() actor.Actor {
					return actor.ReceiveFunc(func(ctx actor.Context) {
						if _, ok := ctx.Message().(*actor.Started); ok {
							idle := actor.PropsFromFunc(func(actor.Context) {})
							if _, err := ctx.SpawnNamed(idle, "grandchild"); err != nil {
								panic(err)
							}
						}
						if when(ctx.Message()) && panics == 0 {
							panics++
							panic("while stopping")
						}
					})
				})
				pid := sys.Root.Spawn(supervise.Props(func() actor.Actor { return &parent{child} }))
				synctest.Wait()
				sys.Root.Send(pid, do(func(ctx actor.Context) { ctx.Stop(ctx.Children()[0]) }))
				synctest.Wait()
				for _, id := range []string{"/child", "/child/grandchild"} {
					if _, alive := sys.ProcessRegistry.GetLocal(pid.GetId() + id); alive {
						t.Errorf("%s is still there", id)
					}
				}
				var children int
				sys.Root.Send(pid, do(func(ctx actor.Context) { children = len(ctx.Children()) }))
				synctest.Wait()
				if children != 0 || panics != 1 {
					t.Errorf("the parent has %d children after %d panics", children, panics)
				}
				_ = sys.Root.StopFuture(pid).Wait()
			})
		})
	}
}
