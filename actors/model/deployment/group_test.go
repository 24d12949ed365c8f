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

// groupStage is a deployments group with a store and leases that the test controls.
type groupStage struct {
	*fakeLeases
	t        *testing.T
	group    *actor.PID
	router   *testkit.Peer
	changes  chan deployment.Change
	mu       sync.Mutex
	state    messages.MemberState
	live     map[string]int    // running children by deployment
	terms    map[string]uint64 // term of the last child, by deployment
	commands []string
}

func playGroup(t *testing.T, mw ...actor.ReceiverMiddleware) *groupStage {
	sys := testkit.System(t)
	o := &groupStage{
		fakeLeases: &fakeLeases{holders: map[string]string{}, terms: map[string]uint64{}, node: "a"}, t: t,
		changes: make(chan deployment.Change, 10),
		live:    map[string]int{}, terms: map[string]uint64{}, state: messages.MemberState_MEMBER_STATE_UP,
	}
	o.router = testkit.NewPeer(t, sys, "router", nil)
	o.group = testkit.Spawn(t, sys, "deployments", supervise.Strategy(nil),
		deployment.GroupProps(deployment.GroupConfig{
			Node: "a", Store: o, Leases: o.fakeLeases, Router: o.router.PID, Strategy: supervise.Strategy(nil),
			Log: zerolog.Nop(),
			Members: func() *messages.MembersChanged {
				o.mu.Lock()
				defer o.mu.Unlock()
				return &messages.MembersChanged{Members: []*messages.Member{{Name: "a", State: o.state},
					{Name: "b", State: messages.MemberState_MEMBER_STATE_UP}}}
			},
			Deployment: o.child,
		}), mw...)
	return o
}

// child plays a deployment that has nothing to remove.
func (o *groupStage) child(name string, term uint64) *actor.Props {
	return actor.PropsFromFunc(func(ctx actor.Context) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch msg := ctx.Message().(type) {
		case *actor.Started:
			o.live[name]++
			o.terms[name] = term
			ctx.Request(ctx.Parent(), &messages.GetDeploymentSpec{Name: name})
		case *actor.Stopped:
			o.live[name]--
		case *messages.ApplyDeployment:
			o.commands = append(o.commands, "apply "+name)
		case *messages.PlacementRefused:
			o.commands = append(o.commands, "refused "+name)
		case *messages.RemoveDeployment:
			how := "remove "
			if msg.GetDropWeights() {
				how = "remove and drop "
			}
			o.commands = append(o.commands, how+name)
			ctx.Send(ctx.Parent(), deployment.Removed(name, term))
		}
	})
}

func (o *groupStage) Watch(ctx context.Context, apply func(deployment.Change)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-o.changes:
			apply(c)
		}
	}
}

func (o *groupStage) store(changes ...deployment.Change) {
	for _, c := range changes {
		o.changes <- c
	}
	o.pass(5 * time.Second)
}

func (o *groupStage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (o *groupStage) expectLive(name string, want int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live[name] != want {
		o.t.Errorf("%d children of deployment %s, want %d; commands: %q", o.live[name], name, want, o.commands)
	}
}

func put(name string, revision uint64) deployment.Change {
	return deployment.Change{Name: name, Spec: &messages.DeploymentSpec{Name: name}, Revision: revision}
}

var synced = deployment.Change{Synced: true}

// TestGroupRunsDeploymentsItLeads checks that the group acquires free leases and stops a deployment
// when its lease is lost, without removing it.
func TestGroupRunsDeploymentsItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := playGroup(t)
		o.fakeLeases.holders["deployment.other"], o.fakeLeases.terms["deployment.other"] = "b", 1
		o.store(put("m", 1), put("other", 2), synced)
		o.expectLive("m", 1)
		o.expectLive("other", 0)
		o.fakeLeases.mu.Lock()
		o.assign("deployment.m", "b")
		o.fakeLeases.mu.Unlock()
		o.pass(5 * time.Second)
		o.expectLive("m", 0)
		o.fakeLeases.mu.Lock()
		o.assign("deployment.m", "") // b fails
		o.fakeLeases.mu.Unlock()
		o.pass(5 * time.Second)
		o.expectLive("m", 1)
		if _, term := o.Holder("deployment.m"); o.terms["m"] != term {
			t.Errorf("running in term %d, the lease has %d", o.terms["m"], term)
		}
		if slices.ContainsFunc(o.commands, func(c string) bool { return strings.HasPrefix(c, "remove") }) {
			t.Errorf("%q", o.commands)
		}
	})
}

// TestDeletedDeploymentReleasesLease checks that the lease of a deleted deployment is released
// after its removal, also if it was deleted without a leader.
func TestDeletedDeploymentReleasesLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := playGroup(t)
		o.fakeLeases.terms["deployment.orphan"] = 3 // deleted while it had no leader
		o.store(put("m", 1), synced)
		o.store(deployment.Change{Name: "m", Revision: 2})
		o.expectLive("m", 0)
		o.expectLive("orphan", 0)
		if roles := o.Roles(); len(roles) != 0 || !slices.Contains(o.commands, "remove m") ||
			!slices.Contains(o.commands, "remove orphan") {
			t.Errorf("remaining leases: %q; commands: %q", roles, o.commands)
		}
		o.store(put("m", 3))
		o.expectLive("m", 1)
	})
}

// TestDeletedDeploymentDropsWeights checks that a deletion says whether weights are freed, also to a deployment
// that starts after it, and that a deployment of the same name that is deleted later does not inherit it.
func TestDeletedDeploymentDropsWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := playGroup(t)
		o.fakeLeases.terms["deployment.orphan"] = 3 // deleted while it had no leader
		o.store(deployment.Change{Name: "orphan", Revision: 1, DropWeights: true}, put("m", 2), synced)
		o.store(deployment.Change{Name: "m", Revision: 3, DropWeights: true})
		o.store(put("m", 4))
		o.store(deployment.Change{Name: "m", Revision: 5})
		o.mu.Lock()
		defer o.mu.Unlock()
		removals := slices.DeleteFunc(slices.Clone(o.commands),
			func(c string) bool { return !strings.HasPrefix(c, "remove") })
		if want := []string{"remove and drop orphan", "remove and drop m", "remove m"}; !slices.Equal(removals, want) {
			t.Errorf("got %q, want %q", removals, want)
		}
	})
}

// TestLeavingNodeReleasesLeases checks that a node that is shutting down releases its leases.
func TestLeavingNodeReleasesLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := playGroup(t)
		o.store(put("m", 1), synced)
		o.expectLive("m", 1)
		o.mu.Lock()
		o.state = messages.MemberState_MEMBER_STATE_LEAVING
		o.mu.Unlock()
		o.pass(5 * time.Second)
		o.expectLive("m", 0)
		if len(o.Roles()) != 0 {
			t.Errorf("still holds %q", o.Roles())
		}
	})
}

// TestGroupRestart checks that a restarted group starts the deployments whose leases it holds, and
// sends the stored deployments to the router again.
func TestGroupRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.MembersChanged", Times: 1}
		o := playGroup(t, crash.Middleware)
		o.store(put("m", 1), synced)
		o.router.Send(o.group, &messages.MembersChanged{})
		o.pass(time.Second)
		o.store(put("m", 1), synced)
		o.expectLive("m", 1)
		if n := len(testkit.Got[*messages.ListDeploymentsResult](o.router)); crash.Crashed() == 0 || n != 2 {
			t.Errorf("%d crashes, %d lists sent to the router", crash.Crashed(), n)
		}
	})
}

// TestGroupForwardsRefusals checks that the group passes the planner's refusals to the deployment, and
// ignores those of deployments that run elsewhere.
func TestGroupForwardsRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := playGroup(t)
		o.store(put("m", 1), synced)
		for _, name := range []string{"m", "n"} {
			o.router.Send(o.group, &messages.PlacementRefused{Name: name, Missing: 1})
		}
		o.pass(time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if want := []string{"apply m", "refused m"}; !slices.Equal(o.commands, want) {
			t.Errorf("commands: %q, want %q", o.commands, want)
		}
	})
}
