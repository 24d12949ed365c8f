package tree_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/observe/tree"
	"troupe/testkit"
)

type crash struct{}
type hello struct{}

// family spawns a registered parent with one registered child.
func family(t *testing.T) (*tree.Registry, *actor.RootContext, *actor.PID) {
	sys := testkit.System(t)
	r := tree.New(nil)
	child := r.Instrument("child", actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*crash); ok {
			panic("told to\ncrash")
		}
	}))
	parent, err := sys.Root.SpawnNamed(r.Instrument("parent", actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			if _, err := ctx.SpawnNamed(child, "one"); err != nil {
				panic(err)
			}
		}
	}, actor.WithSupervisor(supervise.Strategy(func(f supervise.Failure) {
		r.RecordFailure(f.ID, f.Reason, f.Message, f.Time)
	})))), "top")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return r, sys.Root, parent
}

func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, root, parent := family(t)
		child := actor.NewPID(parent.GetAddress(), "top/one")
		for range 3 {
			root.Send(child, &hello{})
		}
		root.Send(child, &crash{})
		time.Sleep(time.Second)
		root.Send(child, &hello{})
		synctest.Wait()
		roots := r.Snapshot()
		if len(roots) != 1 || len(roots[0].GetChildren()) != 1 {
			t.Fatalf("%v", roots)
		}
		one := roots[0].GetChildren()[0]
		f := one.GetLastFailure()
		if one.GetName() != "one" || one.GetKind() != "child" || one.GetIncarnation() != 2 ||
			one.GetRestarts() != 1 ||
			one.GetMessages() != 5 ||
			one.GetState() != messages.ActorState_ACTOR_STATE_RUNNING ||
			f.GetMessage() != "*tree_test.crash" ||
			f.GetReason() != "told to\ncrash" {
			t.Errorf("%v", one)
		}
		text := tree.Text(roots)
		if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) != 5 ||
			lines[4] != "1 node, 2 actors, 1 restart, 1 with a failure" ||
			!strings.HasPrefix(lines[2], "└─ one") ||
			!strings.Contains(lines[2], "told to crash on *tree_test.crash") {
			t.Errorf("%s", text)
		}
		if dot := tree.DOT(roots); !strings.Contains(dot, `"top:top" -> "top:top/one"`) {
			t.Errorf("%s", dot)
		}
		var v struct {
			Roots []struct {
				Children []struct{ Name, State string }
			}
		}
		if b, err := tree.JSON(roots); err != nil || json.Unmarshal(b, &v) != nil ||
			v.Roots[0].Children[0].State != "ACTOR_STATE_RUNNING" {
			t.Errorf("%s, %v", b, err)
		}
		_ = root.StopFuture(parent).Wait()
		synctest.Wait()
		if left := r.Snapshot(); len(left) != 0 {
			t.Errorf("after the stop: %v", left)
		}
	})
}

// TestMessagesDuringSpawn: an actor whose name is known may receive messages while it is being
// spawned.
func TestMessagesDuringSpawn(t *testing.T) {
	sys := testkit.System(t)
	registry := tree.New(nil)
	for i := range 60 {
		name := fmt.Sprintf("actor-%d", i)
		heard := make(chan struct{})
		hear := sync.OnceFunc(func() { close(heard) })
		var sending sync.WaitGroup
		sending.Go(func() {
			for {
				select {
				case <-heard:
					return
				default:
					if ref, ok := sys.ProcessRegistry.GetLocal(name); ok {
						ref.SendUserMessage(sys.NewLocalPID(name), &hello{})
					}
				}
			}
		})
		props := registry.Instrument("test", actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*hello); ok {
				hear()
			}
		}))
		pid, err := sys.Root.SpawnNamed(props, name)
		if err != nil {
			t.Fatal(err)
		}
		sending.Wait()
		sys.Root.Stop(pid)
	}
}
