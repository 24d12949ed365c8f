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

// endpoint is the side of one node. It is the actor.Process of every PID on another node.
type endpoint struct {
	network  *Network
	system   *actor.ActorSystem
	address  string
	plane    *plane
	members  map[string]bool       // addresses that the node can send messages to
	waiting  map[string]*actor.PID // id of a future -> actor that it waits for
	watches  map[watch]bool        // watches of remote actors by actors of this node
	watchers map[watch]bool        // watches of actors of this node by remote actors
}

// watch is a pair of actors on different nodes.
type watch struct{ address, watcher, watched string } // the other node, and ids

// plane returns the data plane at the address to, or nil if it cannot be reached from the address
// from.
func (n *Network) plane(from, to string) *plane {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[from] == nil || n.nodes[to] == nil || n.isCut(from, to) || n.isCut(to, from) {
		return nil
	}
	return n.nodes[to].plane
}

func (n *Network) isCut(from, to string) bool {
	c := n.conns[pair{from, to}]
	return c != nil && c.cut
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

// SendUserMessage implements actor.Process.
func (e *endpoint) SendUserMessage(pid *actor.PID, message any) {
	header, inner, sender := actor.UnwrapEnvelope(message)
	m, ok := inner.(proto.Message)
	if !ok { // as in the product, only protobuf messages can be sent between nodes
		e.system.DeadLetter.SendUserMessage(pid, message)
		return
	}
	l := letter{target: pid, sender: sender, message: proto.Clone(m)} // the other node receives a copy
	if header != nil && header.Length() > 0 {
		l.header = header.ToMap()
	}
	e.network.mu.Lock()
	if isFuture(sender) && sender.GetAddress() == e.address {
		e.waiting[sender.GetId()] = pid
	}
	posted := e.post(l)
	e.network.mu.Unlock()
	if !posted {
		e.undeliverable(l)
	}
}

// SendSystemMessage implements actor.Process.
func (e *endpoint) SendSystemMessage(pid *actor.PID, message any) {
	switch m := message.(type) {
	case *actor.Watch:
		one := watch{pid.GetAddress(), m.GetWatcher().GetId(), pid.GetId()}
		e.network.mu.Lock()
		posted := e.post(letter{target: pid, message: m})
		if posted {
			e.watches[one] = true
		}
		e.network.mu.Unlock()
		if !posted {
			e.terminated(m.GetWatcher().GetId(), pid, actor.TerminatedReason_AddressTerminated)
		}
	case *actor.Unwatch:
		e.network.mu.Lock()
		defer e.network.mu.Unlock()
		delete(e.watches, watch{pid.GetAddress(), m.GetWatcher().GetId(), pid.GetId()})
		e.post(letter{target: pid, message: m})
	case *actor.Terminated:
		e.network.mu.Lock()
		defer e.network.mu.Unlock()
		delete(e.watchers, watch{pid.GetAddress(), pid.GetId(), m.GetWho().GetId()})
		e.post(letter{target: pid, message: m})
	default:
		e.system.DeadLetter.SendSystemMessage(pid, m)
	}
}

// Stop implements actor.Process. It does nothing, because only an actor's own node stops it.
func (e *endpoint) Stop(*actor.PID) {}

func isFuture(pid *actor.PID) bool { return strings.HasPrefix(pid.GetId(), "future$") }

// post queues a letter, and reports whether it did.
func (e *endpoint) post(l letter) bool {
	if !e.members[l.target.GetAddress()] || e.network.nodes[e.address] != e {
		return false
	}
	e.network.conn(pair{e.address, l.target.GetAddress()}).send(l)
	return true
}

// deliver passes a letter from another node to its actor.
func (e *endpoint) deliver(from string, l letter) {
	ref, found := e.system.ProcessRegistry.GetLocal(l.target.GetId())
	switch m := l.message.(type) {
	case *actor.Watch:
		e.network.mu.Lock()
		if !found {
			defer e.network.mu.Unlock()
			who := actor.NewPID(e.address, l.target.GetId())
			e.post(letter{target: m.GetWatcher(),
				message: &actor.Terminated{Who: who, Why: actor.TerminatedReason_NotFound}})
			return
		}
		e.watchers[watch{from, m.GetWatcher().GetId(), l.target.GetId()}] = true
		e.network.mu.Unlock()
		ref.SendSystemMessage(l.target, m)
	case *actor.Unwatch:
		e.network.mu.Lock()
		delete(e.watchers, watch{from, m.GetWatcher().GetId(), l.target.GetId()})
		e.network.mu.Unlock()
		if found {
			ref.SendSystemMessage(l.target, m)
		}
	case *actor.Terminated:
		one := watch{from, l.target.GetId(), m.GetWho().GetId()}
		e.network.mu.Lock()
		watching := e.watches[one]
		delete(e.watches, one)
		e.network.mu.Unlock()
		if watching {
			e.terminated(l.target.GetId(), m.GetWho(), m.GetWhy())
		}
	default:
		if isFuture(l.target) && !e.take(l.target.GetId()) {
			return // it was answered with a dead letter
		}
		to := actor.NewPID(e.address, l.target.GetId())
		if l.header == nil && l.sender == nil {
			e.system.Root.Send(to, l.message)
			return
		}
		env := actor.WrapEnvelope(l.message)
		env.Sender = l.sender
		for _, k := range slices.Sorted(maps.Keys(l.header)) {
			env.SetHeader(k, l.header[k])
		}
		e.system.Root.Send(to, env)
	}
}

// terminated notifies an actor of this node that a remote actor has ended.
func (e *endpoint) terminated(watcher string, who *actor.PID, why actor.TerminatedReason) {
	if ref, ok := e.system.ProcessRegistry.GetLocal(watcher); ok {
		ref.SendSystemMessage(actor.NewPID(e.address, watcher), &actor.Terminated{Who: who, Why: why})
	}
}

// undeliverable answers a letter that was not delivered.
func (e *endpoint) undeliverable(l letter) {
	if l.sender == nil {
		return
	}
	if isFuture(l.sender) && l.sender.GetAddress() == e.address && !e.take(l.sender.GetId()) {
		return
	}
	e.system.Root.Send(l.sender, &actor.DeadLetterResponse{Target: l.target})
}

// take reports whether a future was waiting, and removes it.
func (e *endpoint) take(id string) bool {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	_, ok := e.waiting[id]
	delete(e.waiting, id)
	return ok
}

// lose forgets the futures and watches that involve a lost address. It returns functions that
// notify their actors.
func (e *endpoint) lose(address string) (tell []func()) {
	for _, id := range slices.Sorted(maps.Keys(e.waiting)) {
		if target := e.waiting[id]; target.GetAddress() == address {
			delete(e.waiting, id)
			tell = append(tell, func() {
				e.system.Root.Send(actor.NewPID(e.address, id), &actor.DeadLetterResponse{Target: target})
			})
		}
	}
	for _, w := range sortedWatches(e.watches, address) {
		delete(e.watches, w)
		tell = append(tell, func() {
			e.terminated(w.watcher, actor.NewPID(address, w.watched), actor.TerminatedReason_AddressTerminated)
		})
	}
	for _, w := range sortedWatches(e.watchers, address) {
		delete(e.watchers, w)
		tell = append(tell, func() {
			if ref, ok := e.system.ProcessRegistry.GetLocal(w.watched); ok {
				ref.SendSystemMessage(actor.NewPID(e.address, w.watched),
					&actor.Unwatch{Watcher: actor.NewPID(address, w.watcher)})
			}
		})
	}
	return tell
}

// sortedWatches returns the watches that involve an address, in a deterministic order.
func sortedWatches(all map[watch]bool, address string) []watch {
	found := slices.SortedFunc(maps.Keys(all), func(a, b watch) int {
		return strings.Compare(a.watcher+" "+a.watched, b.watcher+" "+b.watched)
	})
	return slices.DeleteFunc(found, func(w watch) bool { return w.address != address })
}
