package router

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"troupe/core/route"
)

// world is a cluster of machines, with a network that loses, repeats and reorders announcements. It
// checks the invariants of doc.go by name.
type world struct {
	*rapid.T
	now     time.Time
	nodes   map[string]*node // running nodes by name
	starts  int              // number of processes and routers started so far
	network []packet
	terms   map[string]uint64 // by deployment that one node reports
}

// node is a router's caller and the truth about its node.
type node struct {
	w           *world
	name        string
	process     string
	incarnation uint64
	leaving     bool
	recovering  bool // the router crashed, and the node has not reported everything to it again
	m           *Machine
	truth       truth
	due         time.Time // of the next tick

	members  []string // as the machine knows them; without this node
	contacts map[string]*contact
	leavers  map[string]bool   // nodes that are shutting down, as the machine knows
	watched  map[string]bool   // replicas of this node
	kept     map[string]Status // by "model/replica" or deployment; zero for replicas
	stored   map[string]bool
	levels   map[string]Stored // the last change of each deployment, for its levels
	held     map[string]bool   // requests that waited when a level was set
	read     bool              // the store was read
	synced   int               // number of ReportSynced effects
	sequence uint64
	ticks    int // since the last announcement
	delta    Announcement
	changes  int // number of changes on this node since the last announcement
}

// contact is the view of a peer by a node's caller.
type contact struct {
	process string
	asked   time.Time
	heardAt time.Time
	heard   bool // since the connection was established
	newest  uint64
	adopted bool // a snapshot of the newest incarnation was delivered
	applied [2]uint64
}

// truth is the state of a node: blocks by replica and by tier, and terms by deployment.
type truth struct {
	replicas map[string]replicaTruth
	tiers    map[string]map[uint64]bool
	statuses map[string]uint64
}

type replicaTruth struct {
	state  route.State
	blocks map[uint64]bool
}

// packet is a message between routers. Only announcements have a view, which is the sender's view
// of its own node.
type packet struct {
	from, to string
	ask      bool // requests a snapshot
	news     Announcement
	view     string
}

func newTruth() truth {
	return truth{map[string]replicaTruth{}, map[string]map[uint64]bool{}, map[string]uint64{}}
}

func (t truth) String() string {
	var out []string
	for _, name := range sorted(t.replicas) {
		r := t.replicas[name]
		out = append(out, fmt.Sprint(name, r.state, slices.Sorted(maps.Keys(r.blocks))))
	}
	for _, name := range sorted(t.tiers) {
		out = append(out, fmt.Sprint(name, slices.Sorted(maps.Keys(t.tiers[name]))))
	}
	for _, name := range sorted(t.statuses) {
		out = append(out, fmt.Sprint(name, t.statuses[name]))
	}
	return strings.Join(out, " ")
}

// view returns a machine's view of a node, in the form of truth.String.
func view(m *Machine, of string) string {
	t := newTruth()
	for _, model := range m.models {
		for name, r := range model.replicas {
			if r.node == of {
				t.replicas[name] = replicaTruth{r.state, set(model.routes.BlocksOf(name))}
			}
		}
	}
	for name := range m.tiers {
		if name.node == of {
			t.tiers[name.tier] = set(m.blocks.BlocksOf(name.String()))
		}
	}
	for name, s := range m.statuses {
		if s.Node == of && isOwn(name) {
			t.statuses[name] = s.Term
		}
	}
	return t.String()
}

func set(blocks []uint64) map[uint64]bool {
	all := make(map[uint64]bool)
	for _, b := range blocks {
		all[b] = true
	}
	return all
}

// dump returns the state that an ignored event must not change.
func dump(m *Machine) string {
	var out strings.Builder
	for _, name := range append(sorted(m.peers), m.node) {
		if p := m.peers[name]; p != nil {
			fmt.Fprint(&out, p.name, p.id, p.sync, p.incarnation, p.sequence, p.asked, p.sessions)
		}
		fmt.Fprintln(&out, view(m, name))
	}
	fmt.Fprint(&out, m.phase, m.sequence, m.shared, m.gone, m.withdrawn, sorted(m.stored))
	return out.String()
}

// contested is a deployment whose status several nodes report.
const contested = "z"

// isOwn reports whether only one node reports a deployment.
func isOwn(deployment string) bool { return strings.Contains(deployment, "-") }

func routerOf(node string) Actor { return Actor{node, "router"} }

// observe returns the current members and records them.
func (n *node) observe() (all []Member) {
	n.members, n.leavers = nil, map[string]bool{}
	for _, name := range sorted(n.w.nodes) {
		peer := n.w.nodes[name]
		all = append(all, Member{
			Name: name, ID: peer.process, Router: routerOf(name), Leaving: peer.leaving,
			Deployments: Actor{name, "leads"},
		})
		n.leavers[name] = peer.leaving
		if name == n.name {
			continue
		}
		n.members = append(n.members, name)
		if c := n.contacts[name]; c == nil || c.process != peer.process {
			n.contacts[name] = &contact{process: peer.process}
		}
	}
	maps.DeleteFunc(n.contacts, func(name string, _ *contact) bool { return !slices.Contains(n.members, name) })
	return all
}

// do carries out an event and its effects, and checks the state after it.
func (n *node) do(news *Announcement, event func() []Effect) []Effect {
	before, waiting := dump(n.m), maps.Clone(n.m.requests)
	effects := event()
	maps.DeleteFunc(n.held, func(id string, _ bool) bool { _, waits := n.m.requests[id]; return !waits })
	for _, e := range effects {
		n.carryOut(e, news)
	}
	n.checkAnswers(effects, waiting)
	if len(effects) == 1 {
		if _, ok := effects[0].(Ignored); ok && dump(n.m) != before {
			n.w.Fatalf("ignored: %v changed\n%s to\n%s", effects[0], before, dump(n.m))
		}
	}
	n.check()
	return effects
}

// carryOut carries out an effect. news is the announcement being handled, or the change on this
// node.
func (n *node) carryOut(e Effect, news *Announcement) {
	w := n.w
	switch e := e.(type) {
	case AskSnapshot:
		c := n.contacts[e.Peer.Address]
		if !c.asked.IsZero() && w.now.Sub(c.asked) < 500*time.Millisecond {
			w.Fatalf("retry: %s asked %s again after %s", n.name, e.Peer.Address, w.now.Sub(c.asked))
		}
		c.asked = w.now
		w.network = append(w.network, packet{from: n.name, to: e.Peer.Address, ask: true})
	case SendSnapshot:
		n.sendSnapshot(e.Peer.Address)
	case KeepReplica:
		if news.Replicas[e.At].Name != e.Name || news.Replicas[e.At].Model != e.Model {
			w.Fatalf("kept: report %d is not that of %s", e.At, e.Name)
		}
		n.kept[e.Model+"/"+e.Name] = Status{}
	case DropReplica:
		delete(n.kept, e.Model+"/"+e.Name)
	case KeepStatus:
		if news.Statuses[e.At].Deployment != e.Deployment {
			w.Fatalf("kept: status %d is not that of %s", e.At, e.Deployment)
		}
		n.kept[e.Deployment] = news.Statuses[e.At]
	case DropStatus:
		delete(n.kept, e.Deployment)
	case Share:
		n.delta.Replicas = append(n.delta.Replicas, news.Replicas...)
		n.delta.Tiers = append(n.delta.Tiers, news.Tiers...)
		n.delta.Statuses = append(n.delta.Statuses, news.Statuses...)
	case Announce:
		n.announce(e)
	case DropStored:
		delete(n.stored, e.Deployment)
		delete(n.levels, e.Deployment)
	case WakeModel:
		n.checkWake(e)
	case ReportSynced:
		n.synced++
	}
}

func (n *node) announce(e Announce) {
	n.sequence++
	var to []Actor
	for _, name := range n.members {
		to = append(to, routerOf(name))
	}
	if e.Sequence != n.sequence || !slices.Equal(e.To, to) {
		n.w.Fatalf("numbered: %s sent announcement %d to %v, want %d to %v", n.name, e.Sequence, e.To, n.sequence, to)
	}
	n.delta.Gone, n.delta.Withdrawn = e.Gone, e.Withdrawn
	n.delta.Node, n.delta.Incarnation, n.delta.Sequence = n.name, n.incarnation, e.Sequence
	for _, peer := range n.members {
		n.w.network = append(n.w.network, packet{from: n.name, to: peer, news: n.delta, view: view(n.m, n.name)})
	}
	n.delta, n.ticks, n.changes = Announcement{}, 0, 0
}

func (n *node) sendSnapshot(to string) {
	s := n.m.Snapshot()
	a := Announcement{
		Node: n.name, Incarnation: n.incarnation, Sequence: s.Sequence, Snapshot: true, Tiers: s.Tiers,
	}
	for _, b := range s.Replicas {
		a.Replicas = append(a.Replicas, n.reportOf(b.Name, n.truth.replicas[b.Name].state, true, nil, b.Blocks))
	}
	for _, name := range s.Statuses {
		a.Statuses = append(a.Statuses, n.kept[name])
	}
	n.w.network = append(n.w.network, packet{from: n.name, to: to, news: a, view: view(n.m, n.name)})
}
