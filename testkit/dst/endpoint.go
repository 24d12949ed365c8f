package dst

import (
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

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

// SendUserMessage implements actor.Process.
func (e *endpoint) SendUserMessage(pid *actor.PID, message any) {
	e.network.world.actions.Add(1)
	header, inner, sender := actor.UnwrapEnvelope(message)
	m, ok := inner.(proto.Message)
	if !ok { // as in the product, only protobuf messages can be sent between nodes
		e.system.DeadLetter.SendUserMessage(pid, message)
		return
	}
	l := letter{target: copyPID(pid), sender: copyPID(sender), message: proto.Clone(m)}
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

// copyPID returns a copy of a PID; nil for nil. A PID caches the process to which one actor system
// has resolved it, so that two systems must not share it.
func copyPID(pid *actor.PID) *actor.PID {
	if pid == nil {
		return nil
	}
	return actor.NewPID(pid.GetAddress(), pid.GetId())
}

// SendSystemMessage implements actor.Process.
func (e *endpoint) SendSystemMessage(pid *actor.PID, message any) {
	e.network.world.actions.Add(1)
	pid = copyPID(pid)
	switch m := message.(type) {
	case *actor.Watch:
		m = &actor.Watch{Watcher: copyPID(m.GetWatcher())}
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
		m = &actor.Unwatch{Watcher: copyPID(m.GetWatcher())}
		e.network.mu.Lock()
		defer e.network.mu.Unlock()
		delete(e.watches, watch{pid.GetAddress(), m.GetWatcher().GetId(), pid.GetId()})
		e.post(letter{target: pid, message: m})
	case *actor.Terminated:
		m = &actor.Terminated{Who: copyPID(m.GetWho()), Why: m.GetWhy()}
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
