package dst

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// Network connects the actor systems of a world's nodes, with the guarantees of cluster/link: a
// message that is not delivered is answered with a dead letter; messages between two nodes arrive
// in order as long as their connection holds; and actors that watch, or wait for, an actor of a
// lost node are notified. There is no order between messages of different pairs of nodes.
type Network struct {
	world *World

	mu    sync.Mutex           // not held while actors or tasks are called
	nodes map[string]*endpoint // by address
	conns map[pair]*connection
	// MaxDelay is the maximum delay of a message. The minimum is 0.
	MaxDelay time.Duration
	// BreakAfter is the time after which a connection that delivers nothing is closed.
	BreakAfter time.Duration
}

// pair is one direction between two addresses.
type pair struct{ from, to string }

// NewNetwork returns a network without nodes.
func NewNetwork(w *World) *Network {
	return &Network{world: w, nodes: make(map[string]*endpoint), conns: make(map[pair]*connection),
		MaxDelay: 5 * time.Millisecond, BreakAfter: time.Second}
}

// attach adds a node.
func (n *Network) attach(node *Node) {
	sys, address := node.system, node.address
	sys.ProcessRegistry.Address = address
	e := &endpoint{network: n, system: sys, address: address, plane: node.plane, members: make(map[string]bool),
		waiting: make(map[string]*actor.PID), watches: make(map[watch]bool), watchers: make(map[watch]bool)}
	n.mu.Lock()
	n.nodes[address] = e
	n.mu.Unlock()
	sys.ProcessRegistry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return e, true })
}

// Detach removes a node that has crashed. Its connections break.
func (n *Network) Detach(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.nodes, address)
	for _, p := range n.sortedPairs() {
		if p.from == address || p.to == address {
			n.conns[p].breakAfter(n.BreakAfter)
		}
	}
}

// SetMembers sets the addresses that a node's actors can send to. An address that is removed counts
// as lost, with all of its actors.
func (n *Network) SetMembers(address string, members []string) {
	n.mu.Lock()
	e := n.nodes[address]
	if e == nil {
		n.mu.Unlock()
		return
	}
	var tell []func()
	for _, lost := range slices.Sorted(maps.Keys(e.members)) {
		if !slices.Contains(members, lost) {
			delete(e.members, lost)
			tell = append(tell, e.lose(lost)...)
		}
	}
	for _, m := range members {
		e.members[m] = m != address
	}
	n.mu.Unlock()
	call(tell)
}

func call(all []func()) {
	for _, f := range all {
		f()
	}
}

// Cut cuts the connection from one address to another: messages wait until Heal, or are lost when
// the connection is closed.
func (n *Network) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.conn(pair{from, to})
	c.cut = true
	c.breakAfter(n.BreakAfter)
}

// Heal undoes Cut.
func (n *Network) Heal(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.conn(pair{from, to})
	c.cut = false
	c.next()
}

// refuses reports whether the host of an address refuses connections from another address, because
// the node has crashed.
func (n *Network) refuses(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[to] == nil && !n.isCut(from, to) && !n.isCut(to, from)
}

func (n *Network) sortedPairs() []pair {
	return slices.SortedFunc(maps.Keys(n.conns), func(a, b pair) int {
		return strings.Compare(a.from+" "+a.to, b.from+" "+b.to)
	})
}

func (n *Network) conn(p pair) *connection {
	if n.conns[p] == nil {
		n.conns[p] = &connection{network: n, pair: p}
	}
	return n.conns[p]
}

// connection carries the messages of one direction in order.
type connection struct {
	network *Network
	pair
	cut     bool
	queue   []letter
	last    time.Time // arrival of the last letter
	pending bool      // an arrival is scheduled
	term    uint64    // incremented when the connection breaks
}

// letter is a message between two nodes.
type letter struct {
	target, sender *actor.PID
	header         map[string]string
	message        proto.Message
	arrives        time.Time
}

// send queues a letter.
func (c *connection) send(l letter) {
	w := c.network.world
	w.mu.Lock()
	delay := time.Duration(w.rng.Int64N(int64(c.network.MaxDelay) + 1))
	w.mu.Unlock()
	l.arrives = time.Now().Add(delay)
	if l.arrives.Before(c.last) {
		l.arrives = c.last
	}
	c.last = l.arrives
	c.queue = append(c.queue, l)
	c.next()
}

// next schedules the arrival of the first queued letter.
func (c *connection) next() {
	if c.pending || c.cut || len(c.queue) == 0 {
		return
	}
	c.pending = true
	term := c.term
	c.network.world.at(c.queue[0].arrives, c.label, func() { c.arrive(term) })
}

func (c *connection) label() string {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if len(c.queue) == 0 {
		return c.from + " -> " + c.to
	}
	l := c.queue[0]
	return c.from + " -> " + c.to + " " + l.target.GetId() + " " + string(proto.MessageName(l.message))
}

// arrive delivers the first queued letter, unless the connection has broken since it was scheduled.
func (c *connection) arrive(term uint64) {
	c.network.mu.Lock()
	if c.term != term {
		c.network.mu.Unlock()
		return
	}
	c.pending = false
	if c.cut {
		c.network.mu.Unlock()
		return
	}
	to := c.network.nodes[c.to]
	if to == nil {
		tell := c.broken()
		c.network.mu.Unlock()
		call(tell)
		return
	}
	l := c.queue[0]
	c.queue = c.queue[1:]
	c.next()
	c.network.mu.Unlock()
	to.deliver(c.from, l)
}

// breakAfter breaks the connection after d if it is still cut then, or if one of its nodes is gone.
func (c *connection) breakAfter(d time.Duration) {
	n, term := c.network, c.term
	n.world.at(time.Now().Add(d), func() string { return "break " + c.from + " -> " + c.to }, func() {
		n.mu.Lock()
		var tell []func()
		if gone := n.nodes[c.from] == nil || n.nodes[c.to] == nil; c.term == term && (c.cut || gone) {
			tell = c.broken()
		}
		n.mu.Unlock()
		call(tell)
	})
}

// broken ends the connection: its letters are lost. It returns functions that notify both ends.
func (c *connection) broken() (tell []func()) {
	lost := c.queue
	c.term++
	c.queue, c.pending = nil, false
	if from := c.network.nodes[c.from]; from != nil {
		for _, l := range lost {
			tell = append(tell, func() { from.undeliverable(l) })
		}
		tell = append(tell, from.lose(c.to)...)
	}
	if to := c.network.nodes[c.to]; to != nil {
		tell = append(tell, to.lose(c.from)...)
	}
	return tell
}
