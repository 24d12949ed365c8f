package deployment

import (
	"context"
	"hash/fnv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	rolePrefix    = "deployment."
	takeoverDelay = 200 * time.Millisecond // between successive nodes that try to acquire a free lease
	leaseTimeout  = 2 * time.Second
)

// leadership is this node's view of the lease of one deployment.
type leadership struct {
	term       uint64     // of the child
	child      *actor.PID // nil: not running here
	attempting bool       // an Acquire or Release is in flight
	freeSince  time.Time  // zero: the lease is held
	notBefore  time.Time  // of the next Acquire
}

// leaseAttempt is a note to self: an Acquire or Release has ended.
type leaseAttempt struct {
	incarnation uint64
	name        string
	err         error
}

// retryAcquire is a note to self.
type retryAcquire struct{ incarnation uint64 }

// syncLeases starts the deployments whose leases this node holds, stops those whose leases it lost,
// and acquires free leases.
func (g *group) syncLeases(ctx actor.Context) {
	if !g.synced {
		return
	}
	for _, name := range g.leadershipNames() {
		r := g.leaderships[name]
		if r == nil {
			r = &leadership{}
			g.leaderships[name] = r
		}
		holder, term := g.Leases.Holder(rolePrefix + name)
		mine := holder == g.Node && !g.leaving()
		switch {
		case r.child != nil && (!mine || term != r.term):
			g.Log.Info().Str("model", name).Str("holder", holder).Msg("deployment moved to another node")
			ctx.Stop(r.child) // its termination calls syncLeases again
		case r.child != nil || r.attempting:
		case mine:
			g.spawn(ctx, name, r, term)
		case holder == g.Node:
			g.release(ctx, name, r, term)
		case holder != "":
			r.freeSince = time.Time{}
			if g.stored[name] == nil {
				delete(g.leaderships, name)
			}
		default:
			g.tryAcquire(ctx, name, r)
		}
	}
}

// leadershipNames returns the stored deployments, and the deleted ones that still have a lease or a
// child.
func (g *group) leadershipNames() []string {
	names := g.storedNames().GetNames()
	for _, role := range g.Leases.Roles() {
		if name, ok := strings.CutPrefix(role, rolePrefix); ok && g.stored[name] == nil {
			names = append(names, name)
		}
	}
	for name := range g.leaderships {
		if g.stored[name] == nil && g.leaderships[name].child != nil {
			names = append(names, name)
		}
	}
	return names
}

// tryAcquire acquires a free lease, after nodes of a lower rank have had the time to.
func (g *group) tryAcquire(ctx actor.Context, name string, r *leadership) {
	rank, ok := g.rank(name)
	if r.freeSince.IsZero() {
		r.freeSince = time.Now()
	}
	wait := time.Until(r.freeSince.Add(time.Duration(rank) * takeoverDelay))
	if !ok || r.attempting || time.Now().Before(r.notBefore) {
		return
	}
	if wait > 0 {
		supervise.After(ctx, wait, &retryAcquire{g.incarnation})
		return
	}
	g.startAttempt(ctx, name, r, func(c context.Context) error {
		_, err := g.Leases.Acquire(c, rolePrefix+name)
		return err
	})
}

func (g *group) release(ctx actor.Context, name string, r *leadership, term uint64) {
	if !r.attempting {
		g.startAttempt(ctx, name, r, func(c context.Context) error {
			return g.Leases.Release(c, rolePrefix+name, term)
		})
	}
}

func (g *group) startAttempt(ctx actor.Context, name string, r *leadership, do func(context.Context) error) {
	r.attempting = true
	incarnation := g.incarnation
	supervise.Job(ctx, g.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := context.WithTimeout(life, leaseTimeout)
			defer cancel()
			return struct{}{}, do(c)
		},
		func(_ struct{}, err error) any { return &leaseAttempt{incarnation, name, err} })
}

func (g *group) onLeaseAttempt(ctx actor.Context, msg *leaseAttempt) {
	r := g.leaderships[msg.name]
	if msg.incarnation != g.incarnation || r == nil {
		return
	}
	r.attempting = false
	if msg.err != nil { // syncLeases retries within a second
		g.Log.Debug().Err(msg.err).Str("model", msg.name).Msg("acquiring or releasing a lease failed")
		return
	}
	g.syncLeases(ctx)
}

// rank returns the position of this node among those that try to acquire a deployment's lease. A
// hash of both names determines it, so that deployments spread over the nodes. ok is false if this
// node is leaving.
func (g *group) rank(name string) (rank int, ok bool) {
	score := func(node string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(node + "/" + name)) // never fails
		return h.Sum64()
	}
	mine := score(g.Node)
	for _, m := range g.Members().GetMembers() {
		if m.GetState() == messages.MemberState_MEMBER_STATE_UP {
			ok = ok || m.GetName() == g.Node
			if score(m.GetName()) < mine {
				rank++
			}
		}
	}
	return rank, ok
}

// leaving reports whether this node releases its leases because it is shutting down.
func (g *group) leaving() bool {
	_, ok := g.rank("")
	return !ok
}

func (g *group) spawn(ctx actor.Context, name string, r *leadership, term uint64) {
	pid, err := ctx.SpawnNamed(g.Deployment(name, term), name)
	if err != nil {
		g.Log.Error().Err(err).Str("model", name).Msg("starting deployment failed")
		return
	}
	r.child, r.term = pid, term
	g.Log.Info().Str("model", name).Uint64("term", term).Msg("deployment started")
}

// onMembers forwards the members to the children and checks the leases.
func (g *group) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	for _, r := range g.leaderships {
		if r.child != nil {
			ctx.Send(r.child, msg)
		}
	}
	g.syncLeases(ctx)
}

// onRemoved stops a deleted deployment of which nothing is left, and releases its lease. If the
// deployment was created again meanwhile, it continues.
func (g *group) onRemoved(ctx actor.Context, msg *removed) {
	r := g.leaderships[msg.name]
	if r == nil || r.child == nil || r.term != msg.term || g.stored[msg.name] != nil {
		return
	}
	ctx.Stop(r.child)
	g.release(ctx, msg.name, r, msg.term)
}

// onTerminated handles a child that was stopped or crashed too often. After crashes it releases the
// lease, so that another node takes over.
func (g *group) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	if g.ending {
		return
	}
	for name, r := range g.leaderships {
		if !samePID(r.child, msg.GetWho()) {
			continue
		}
		r.child = nil
		if holder, term := g.Leases.Holder(rolePrefix + name); holder == g.Node && term == r.term && !r.attempting {
			r.notBefore = time.Now().Add(crashCooldown)
			g.release(ctx, name, r, term)
			continue
		}
		if g.stored[name] == nil {
			delete(g.leaderships, name)
		}
	}
	g.syncLeases(ctx)
}
