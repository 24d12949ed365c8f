package link_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/observe/tree"
	"troupe/testkit"
)

// TestLostNodeRemovesWatchers makes 50 actors of one node watch an actor of another. Some unwatch
// it, then their node is lost. No watcher may remain.
func TestLostNodeRemovesWatchers(t *testing.T) {
	a, b := start(t), start(t)
	join(a, b)
	registry := tree.New(nil)
	watched, err := b.Root.SpawnNamed(
		registry.Instrument("watched", actor.PropsFromFunc(func(actor.Context) {})),
		"watched",
	)
	if err != nil {
		t.Fatal(err)
	}
	watchers := func() uint32 {
		for _, n := range registry.Snapshot() {
			if n.GetId() == watched.GetId() {
				return n.GetWatchers()
			}
		}
		return 0
	}
	type unwatch struct{}
	to := actor.NewPID(b.Address(), "watched")
	all := make([]*actor.PID, 50)
	for i := range all {
		all[i] = a.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				ctx.Watch(to)
			case *unwatch:
				ctx.Unwatch(to)
			}
		}))
	}
	testkit.Until(t, "50 watchers", func() bool { return watchers() == 50 })
	for _, pid := range all[:10] {
		a.Root.Send(pid, &unwatch{})
	}
	testkit.Until(t, "40 watchers", func() bool { return watchers() == 40 })
	b.link.SetMembers([]string{b.Address()})
	testkit.Until(t, "no watchers", func() bool { return watchers() == 0 })
}
