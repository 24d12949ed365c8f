package link

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
)

// guard is the actor.Process for every PID on another node.
type guard struct {
	link    *Link
	system  *actor.ActorSystem
	watches watches
}

var _ actor.Process = (*guard)(nil)

func newGuard(l *Link) *guard {
	g := &guard{link: l, system: l.cfg.System}
	l.cfg.System.ProcessRegistry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return g, true })
	return g
}

// SendUserMessage records a waiting future before it posts the message. A connection that ends
// first closes its queue and only then fails the futures, so the sender of a posted message always
// gets a result.
func (g *guard) SendUserMessage(pid *actor.PID, message any) {
	header, inner, sender := actor.UnwrapEnvelope(message)
	waiting := sender != nil && isFuture(sender.Id) && sender.Address == g.system.Address()
	if waiting {
		g.link.pending.add(sender.Id, pid)
	}
	if g.post(pid, sender, header, inner) {
		return
	}
	if !waiting || g.link.pending.take(sender.Id) {
		g.system.DeadLetter.SendUserMessage(pid, message)
	}
}

// SendSystemMessage forwards watches and deaths to other nodes. All other system messages become
// dead letters: only its own node stops an actor.
func (g *guard) SendSystemMessage(pid *actor.PID, message any) {
	switch m := message.(type) {
	case *actor.Watch:
		g.watches.add(pid, watchOf(m.GetWatcher(), pid))
		if !g.post(pid, nil, nil, m) && g.watches.remove(pid, watchOf(m.GetWatcher(), pid)) {
			g.terminated(m.GetWatcher(), pid, actor.TerminatedReason_AddressTerminated)
		}
	case *actor.Unwatch:
		g.watches.remove(pid, watchOf(m.GetWatcher(), pid))
		g.post(pid, nil, nil, m)
	case *actor.Terminated:
		g.link.watchers.remove(pid, watchOf(pid, m.GetWho()))
		g.post(pid, nil, nil, m)
	default:
		g.system.DeadLetter.SendSystemMessage(pid, m)
	}
}

// post reports whether the message was queued.
func (g *guard) post(pid, sender *actor.PID, header actor.ReadonlyMessageHeader, message any) bool {
	if !g.link.peers.reachable(pid.Address) {
		return false
	}
	l, err := newEnvelope(pid, sender, header, message)
	if err != nil {
		g.link.refused.Error().Err(err).Stringer("to", pid).Type("message", message).Msg("message not sent")
		return false
	}
	return g.link.post(l)
}

// terminated sends Terminated to a watcher on this node.
func (g *guard) terminated(watcher, who *actor.PID, why actor.TerminatedReason) {
	if ref, ok := g.system.ProcessRegistry.GetLocal(watcher.GetId()); ok {
		ref.SendSystemMessage(watcher, &actor.Terminated{Who: who, Why: why})
	}
}

// Stop does nothing: only its own node stops an actor.
func (g *guard) Stop(*actor.PID) {}

// failRequests fails the futures that wait for a response from an address.
func (l *Link) failRequests(address string) {
	all := l.pending.takeAll(address)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		l.respond(actor.NewPID(l.cfg.System.Address(), id), all[id])
	}
}

// undeliverable answers a message that was not written.
func (l *Link) undeliverable(sender, target *actor.PID) {
	if !isFuture(sender.GetId()) || sender.GetAddress() != l.cfg.System.Address() || l.pending.take(sender.GetId()) {
		l.respond(sender, target)
	}
}

func (l *Link) respond(sender, target *actor.PID) {
	l.cfg.System.Root.Send(sender, &actor.DeadLetterResponse{Target: target})
}
