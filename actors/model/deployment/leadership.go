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
	takeoverDelay = 200 * time.Millisecond // of each node in the order in which they try to take a free lease
	leaseTimeout  = 2 * time.Second
)

// reign is what this node has to do with the lease of one deployment.
type leadership struct {
	term       uint64     // of the child
	child      *actor.PID // nil: it does not run here
	attempting bool       // the lease is being taken or given back
	freeSince  time.Time  // since when nobody holds it, as far as is known
	notBefore  time.Time  // not to be taken before
}

// tried is a note to self: the lease of a deployment was taken, given back, or neither.
type leaseAttempt struct {
	incarnation uint64
	name        string
	err         error
}

// retryAcquire is a note to self.
type retryAcquire struct{ incarnation uint64 }

// settle starts what this node holds the lease of, stops what it holds no more, and takes what is free.
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
			g.Log.Info().Str("model", name).Str("holder", holder).Msg("deployment lives elsewhere now")
			ctx.Stop(r.child) // and once it is gone, settles again
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

// leadershipNames are all deployments that are stored, or were and have left a lease.
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

// take takes a free lease, after those who come before this node had the time to.
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
	if msg.err != nil { // settled again within a second
		g.Log.Debug().Err(msg.err).Str("model", msg.name).Msg("lease neither taken nor given back")
		return
	}
	g.syncLeases(ctx)
}

// rank is this node's place in the order in which nodes try to take a deployment's lease: by a hash of both names, so that
// deployments are spread over the nodes. It reports false for a node that is leaving.
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

// leaving reports whether this node gives its leases back, because it is about to end.
func (g *group) leaving() bool {
	_, ok := g.rank("")
	return !ok
}

func (g *group) spawn(ctx actor.Context, name string, r *leadership, term uint64) {
	pid, err := ctx.SpawnNamed(g.Deployment(name, term), name)
	if err != nil {
		g.Log.Error().Err(err).Str("model", name).Msg("deployment not started")
		return
	}
	r.child, r.term = pid, term
	g.Log.Info().Str("model", name).Uint64("term", term).Msg("deployment lives here now")
}

// onMembers passes the members on, and looks at the leases again.
func (g *group) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	for _, r := range g.leaderships {
		if r.child != nil {
			ctx.Send(r.child, msg)
		}
	}
	g.syncLeases(ctx)
}

// onRemoved: nothing is left of a deployment that was deleted. Unless it was deployed again meanwhile, the lease goes too.
func (g *group) onRemoved(ctx actor.Context, msg *removed) {
	r := g.leaderships[msg.name]
	if r == nil || r.child == nil || r.term != msg.term || g.stored[msg.name] != nil {
		return
	}
	ctx.Stop(r.child)
	g.release(ctx, msg.name, r, msg.term)
}

// onTerminated: a deployment was stopped, or crashed too often. In that case another node may have better luck.
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
