package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/core/export"
	"troupe/core/kv"
	"troupe/core/remote"
	"troupe/core/router"
)

// remoteTierName is the name of the remote tier in results.
const remoteTierName = "remote"

// remoteTier looks up and fetches KV blocks that other replicas and nodes have, as the remote tier
// of a node.
type remoteTier struct {
	node    *node
	machine *remote.Machine
	finding *finding
	asked   *fetch            // whose request is being handled
	fetches map[string]*fetch // by id
	lost    bool              // with its node
}

// finding is a lookup of blocks.
type finding struct {
	router.Query
	runs []router.Run
	done func(runs []router.Run, paths []kv.Path)
}

// fetch is a request for blocks that another replica or node has.
type fetch struct {
	id       string
	from     router.Run
	hashes   []kv.Hash
	space    kv.Hash
	bytes    int64 // of a block
	parts    int
	to       *device
	transfer *transfer // nil: none has begun
	ended    func(had int)
}

// newRemoteTier returns the remote tier of a node; nil: it has none.
func (s *simulation) newRemoteTier(n *node) *remoteTier {
	if n.Tiers.Remote == 0 {
		return nil
	}
	t := &remoteTier{node: n, machine: remote.New(n.Tiers.Remote), fetches: make(map[string]*fetch)}
	t.perform(t.machine.Start())
	return t
}

// find looks up who has blocks.
func (t *remoteTier) find(q router.Query, done func(runs []router.Run, paths []kv.Path)) {
	t.finding = &finding{Query: q, done: done}
	t.perform(t.machine.Find(q.ID, remote.Actor{ID: q.ID}, q.InTiers, t.node.sim.key.at))
}

// ask asks the router who has blocks. There is one router for all nodes, so it may also name a tier
// of the same node, which has been asked before: blocks from there on are not fetched.
func (t *remoteTier) ask() {
	s, f := t.node.sim, t.finding
	if !t.node.cut {
		s.models[f.Model].sync()
		for _, n := range s.nodeOrder { // as they do all the time
			if n.remote != nil && !n.lost {
				n.tell(router.Announcement{})
			}
		}
		for _, run := range s.router.Find(f.Query, s.key.at) {
			if run.Node == t.node.Name {
				break
			}
			if run.Node == routerNode { // all replicas report to the one router
				run.Node = run.Holder.Address
				run.Name = strings.TrimSuffix(run.Name, routerNode) + run.Node
			}
			f.runs = append(f.runs, run)
		}
	}
	runs := make([]remote.Run, len(f.runs))
	for i, run := range f.runs {
		runs[i] = remote.Run{First: run.First, Blocks: run.Blocks, Name: run.Name}
	}
	t.perform(t.machine.Found(f.ID, runs, s.key.at))
}

// fetch fetches blocks until a deadline.
func (t *remoteTier) fetch(f *fetch, within time.Duration) {
	blocks := make([]uint64, len(f.hashes))
	for i, h := range f.hashes {
		blocks[i] = h.Namespaced(f.space).Fingerprint64()
	}
	t.asked = f
	t.perform(t.machine.Fetch(remote.Request{ID: f.id, From: remote.Actor{ID: f.id},
		Holder: remote.Actor(f.from.Holder), Name: f.from.Name, Blocks: blocks,
		Bytes: int64(len(blocks)) * f.bytes, Within: within}, t.node.sim.key.at))
}

// perform carries out the effects of the machine, in order. A tier that is lost does nothing more.
func (t *remoteTier) perform(effects []remote.Effect) {
	s := t.node.sim
	for _, effect := range effects {
		if t.lost {
			return
		}
		switch e := effect.(type) {
		case remote.AskRouter:
			t.ask()
		case remote.AnswerFind:
			t.finding.done(t.finding.runs[:len(e.Paths)], e.Paths)
		case remote.Keep:
			t.fetches[e.ID] = t.asked
		case remote.Forget:
			delete(t.fetches, e.ID)
		case remote.Lease:
			t.lease(e)
		case remote.Release:
			t.release(e.ID, e.Holder)
		case remote.AnswerFetch:
			t.answer(e.ID, e.Blocks)
		case remote.Relay:
			t.answer(e.ID, 0)
		case remote.Refuse:
			t.answer(e.ID, 0)
		case remote.SweepAfter:
			s.after(e.After, func() { t.perform(t.machine.Sweep(s.key.at)) })
		}
	}
}

// answer answers a fetch.
func (t *remoteTier) answer(id string, had int) {
	f := t.fetches[id]
	if f == nil {
		f = t.asked // it was refused at once
	}
	t.node.sim.post(func() { f.ended(had) })
}

// lease asks a holder for blocks. One that has ended refuses, and one that is not reached does not
// answer.
func (t *remoteTier) lease(e remote.Lease) {
	s, f := t.node.sim, t.fetches[e.ID]
	refused := func() {
		if t.fetches[e.ID] == f {
			t.perform(t.machine.Refused(e.ID, s.key.at))
		}
	}
	switch h := s.holderAt(e.Holder); {
	case h == nil:
		s.post(refused)
		return
	case h.at().reaches(t.node):
		h.lease(f, export.Request{ID: e.ID, From: export.Actor{Address: t.node.Name, ID: e.ID}, Hashes: f.hashes,
			Space: f.space, BlockBytes: uint64(f.bytes), Within: e.Within})
	}
	s.after(e.Within, func() {
		if t.fetches[e.ID] == f {
			t.release(e.ID, e.Holder)
			refused()
		}
	})
}

func (t *remoteTier) release(id string, at remote.Actor) {
	if h := t.node.sim.holderAt(at); h != nil && h.at().reaches(t.node) {
		h.release(id)
	}
}

// announceTier tells the router which blocks of a tier have changed, or all of them.
func (n *node) announceTier(t *kvTier, a kv.Announcement) {
	if n.Tiers.Remote == 0 || n.lost {
		return
	}
	n.tell(router.Announcement{Tiers: []router.TierReport{{Name: t.name,
		Actor: router.Actor{Address: n.Name, ID: t.name}, Evicted: a.Evicted, Committed: a.Committed,
		Snapshot: a.Snapshot}}})
}

// tell sends the router an announcement of the node.
func (n *node) tell(a router.Announcement) {
	n.told++
	a.Node, a.Incarnation, a.Sequence = n.Name, uint64(n.life), n.told
	n.sim.performRouter(n.sim.router.Announced(a, n.sim.key.at))
}

// routerMembers tells the router which nodes have tiers that others may read. A node that is new
// tells the router what its tiers have.
func (s *simulation) routerMembers() {
	members := []router.Member{{Name: routerNode, Deployments: router.Actor{ID: routerNode}}}
	var joined []*node
	for _, n := range s.nodeOrder {
		if n.remote == nil || n.gone {
			continue
		}
		members = append(members, router.Member{Name: n.Name, ID: fmt.Sprintf("%s#%d", n.Name, n.life),
			Router: router.Actor{Address: n.Name, ID: "router"}})
		if n.follows != n.life {
			n.follows, n.told = n.life, 0
			joined = append(joined, n)
		}
	}
	if len(members) == 1 && !s.remoteTiers() {
		return
	}
	s.performRouter(s.router.Members(members, s.key.at))
	for _, n := range joined {
		n.tell(router.Announcement{Snapshot: true})
		n.announceAll()
	}
}

// remoteTiers reports whether any node has a remote tier.
func (s *simulation) remoteTiers() bool {
	return slices.ContainsFunc(s.nodeOrder, func(n *node) bool { return n.remote != nil })
}

// announceAll tells the router all blocks of the node's tiers.
func (n *node) announceAll() {
	if n.remote != nil {
		for _, t := range n.tiers {
			t.perform(t.machine.Announce(true))
		}
	}
}
