package deployment_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/model/deployment"
	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/testkit"
)

// office is a deployments group with a store and leases of the test.
type office struct {
	*seats
	t        *testing.T
	group    *actor.PID
	router   *testkit.Peer
	changes  chan deployment.Change
	mu       sync.Mutex
	state    messages.MemberState
	life     map[string]int    // deployments that live, by name
	terms    map[string]uint64 // that they were started with
	commands []string
}

func open(t *testing.T, mw ...actor.ReceiverMiddleware) *office {
	sys := testkit.System(t)
	o := &office{
		seats: &seats{holders: map[string]string{}, terms: map[string]uint64{}, node: "a"}, t: t, changes: make(chan deployment.Change, 10),
		life: map[string]int{}, terms: map[string]uint64{}, state: messages.MemberState_MEMBER_STATE_UP,
	}
	o.router = testkit.NewPeer(t, sys, "router", nil)
	o.group = testkit.Spawn(t, sys, "deployments", supervise.Strategy(nil), deployment.GroupProps(deployment.GroupConfig{
		Node: "a", Store: o, Leases: o.seats, Router: o.router.PID, Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
		Members: func() *messages.MembersChanged {
			o.mu.Lock()
			defer o.mu.Unlock()
			return &messages.MembersChanged{Members: []*messages.Member{{Name: "a", State: o.state}, {Name: "b", State: messages.MemberState_MEMBER_STATE_UP}}}
		},
		Deployment: o.child,
	}), mw...)
	return o
}

// child is a deployment that removes itself when told to.
func (o *office) child(name string, term uint64) *actor.Props {
	return actor.PropsFromFunc(func(ctx actor.Context) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch ctx.Message().(type) {
		case *actor.Started:
			o.life[name]++
			o.terms[name] = term
			ctx.Request(ctx.Parent(), &messages.GetDesired{Name: name})
		case *actor.Stopped:
			o.life[name]--
		case *messages.ApplyDeployment:
			o.commands = append(o.commands, "apply "+name)
		case *messages.RemoveDeployment:
			o.commands = append(o.commands, "remove "+name)
			ctx.Send(ctx.Parent(), deployment.Removed(name, term))
		}
	})
}

func (o *office) Watch(ctx context.Context, apply func(deployment.Change)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-o.changes:
			apply(c)
		}
	}
}

func (o *office) store(changes ...deployment.Change) {
	for _, c := range changes {
		o.changes <- c
	}
	o.pass(5 * time.Second)
}

func (o *office) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (o *office) lives(name string, want int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life[name] != want {
		o.t.Errorf("%d actors of deployment %s live here, want %d; %q", o.life[name], name, want, o.commands)
	}
}

func put(name string, revision uint64) deployment.Change {
	return deployment.Change{Name: name, Spec: &messages.DeploymentSpec{Name: name}, Revision: revision}
}

var synced = deployment.Change{Synced: true}

// TestLeaseDecidesWhereADeploymentLives: it is taken where it is free, and what is lost is stopped; nothing is removed by that.
func TestLeaseDecidesWhereADeploymentLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t)
		o.seats.holders["deployment.other"], o.seats.terms["deployment.other"] = "b", 1
		o.store(put("m", 1), put("other", 2), synced)
		o.lives("m", 1)
		o.lives("other", 0)
		o.seats.mu.Lock()
		o.give("deployment.m", "b")
		o.seats.mu.Unlock()
		o.pass(5 * time.Second)
		o.lives("m", 0)
		o.seats.mu.Lock()
		o.give("deployment.m", "") // b has died
		o.seats.mu.Unlock()
		o.pass(5 * time.Second)
		o.lives("m", 1)
		if _, term := o.Holder("deployment.m"); o.terms["m"] != term {
			t.Errorf("it lives in term %d, the lease is of %d", o.terms["m"], term)
		}
		if slices.ContainsFunc(o.commands, func(c string) bool { return strings.HasPrefix(c, "remove") }) {
			t.Errorf("%q", o.commands)
		}
	})
}

// TestDeleted: the deployment removes what there is, then its lease goes; also one that was deleted while nobody reigned.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t)
		o.seats.terms["deployment.orphan"] = 3 // its holder died, and it is not stored any more
		o.store(put("m", 1), synced)
		o.store(deployment.Change{Name: "m", Revision: 2})
		o.lives("m", 0)
		o.lives("orphan", 0)
		if roles := o.Roles(); len(roles) != 0 || !slices.Contains(o.commands, "remove m") || !slices.Contains(o.commands, "remove orphan") {
			t.Errorf("leases of %q are left; %q", roles, o.commands)
		}
		o.store(put("m", 3))
		o.lives("m", 1)
	})
}

// TestLeavingNode: one that is about to end gives its leases back.
func TestLeavingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t)
		o.store(put("m", 1), synced)
		o.lives("m", 1)
		o.mu.Lock()
		o.state = messages.MemberState_MEMBER_STATE_LEAVING
		o.mu.Unlock()
		o.pass(5 * time.Second)
		o.lives("m", 0)
		if len(o.Roles()) != 0 {
			t.Errorf("it holds %q", o.Roles())
		}
	})
}

// TestGroupCrash: its next life starts what it holds the lease of, and tells the router again what is stored.
func TestGroupCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.MembersChanged", Times: 1}
		o := open(t, crash.Middleware)
		o.store(put("m", 1), synced)
		o.router.Send(o.group, &messages.MembersChanged{})
		o.pass(time.Second)
		o.store(put("m", 1), synced)
		o.lives("m", 1)
		if n := len(testkit.Got[*messages.ListDeploymentsResult](o.router)); crash.Crashed() == 0 || n != 2 {
			t.Errorf("crashed %d times, the router was told %d times", crash.Crashed(), n)
		}
	})
}
