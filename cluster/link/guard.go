package link

import (
	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// guard is the process behind every PID of another node. It stands before remote's.
type guard struct {
	link   *Link
	system *actor.ActorSystem
	index  int           // of its resolver; remote's is the next
	remote actor.Process // one for all: it goes by the PID that it is given

	watches watches
}

var _ actor.Process = (*guard)(nil)

// newGuard registers its resolver, before remote does: the first one that answers is asked.
func newGuard(l *Link) *guard {
	registry := l.cfg.System.ProcessRegistry
	g := &guard{link: l, system: l.cfg.System, index: len(registry.RemoteHandlers)}
	registry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return g, true })
	return g
}

func (g *guard) decorate() {
	g.remote, _ = g.system.ProcessRegistry.RemoteHandlers[g.index+1](actor.NewPID("", ""))
}

// SendUserMessage notes who waits before it looks whether the address can be reached, and SetMembers does the reverse: one of
// the two sees a future whose target leaves just now.
func (g *guard) SendUserMessage(pid *actor.PID, message any) {
	_, inner, sender := actor.UnwrapEnvelope(message)
	waiting := sender != nil && isFuture(sender.Id) && sender.Address == g.system.Address()
	if waiting {
		g.link.pending.add(sender.Id, pid)
	}
	if _, ok := inner.(proto.Message); ok && g.link.roster.reachable(pid.Address) {
		g.remote.SendUserMessage(pid, message)
		return
	} else if !ok {
		g.link.refused.Error().Stringer("to", pid).Type("message", inner).Msg("only protobuf messages travel between nodes")
	}
	if !waiting || g.link.pending.take(sender.Id) {
		g.system.DeadLetter.SendUserMessage(pid, message)
	}
}

// SendSystemMessage lets through what actors of different nodes may say to each other behind the scenes. An actor is stopped
// by its own node.
func (g *guard) SendSystemMessage(pid *actor.PID, message any) {
	reachable := g.link.roster.reachable(pid.Address)
	switch m := message.(type) {
	case *actor.Watch:
		if !reachable {
			g.terminated(m.GetWatcher(), pid)
			return
		}
		g.watches.add(m.GetWatcher(), pid)
		g.remote.SendSystemMessage(pid, m)
		if !g.link.roster.reachable(pid.Address) { // it left meanwhile, and the endpoint may be a new one
			g.link.terminate(pid.Address)
		}
	case *actor.Unwatch:
		g.watches.remove(m.GetWatcher(), pid)
		if reachable {
			g.remote.SendSystemMessage(pid, m)
		}
	case *actor.Terminated:
		if reachable {
			g.remote.SendSystemMessage(pid, m)
		}
	default:
		g.system.DeadLetter.SendSystemMessage(pid, m)
	}
}

func (g *guard) terminated(watcher, who *actor.PID) {
	if ref, ok := g.system.ProcessRegistry.GetLocal(watcher.GetId()); ok {
		ref.SendSystemMessage(watcher, &actor.Terminated{Who: who, Why: actor.TerminatedReason_AddressTerminated})
	}
}

// Stop does nothing: an actor is stopped by its own node.
func (g *guard) Stop(*actor.PID) {}

// failRequests answers the futures that wait for an address.
func (l *Link) failRequests(address string) {
	for id, target := range l.pending.takeAll(address) {
		l.respond(actor.NewPID(l.cfg.System.Address(), id), target)
	}
}

// undeliverable answers a message that never left.
func (l *Link) undeliverable(sender, target *actor.PID) {
	if !isFuture(sender.GetId()) || sender.GetAddress() != l.cfg.System.Address() || l.pending.take(sender.GetId()) {
		l.respond(sender, target)
	}
}

func (l *Link) respond(sender, target *actor.PID) {
	l.cfg.System.Root.Send(sender, &actor.DeadLetterResponse{Target: target})
}
