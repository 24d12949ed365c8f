package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// watch names two actors, of which one is on another node.
type watch struct{ watcher, watched string } // ids

func watchOf(watcher, watched *actor.PID) watch { return watch{watcher.GetId(), watched.GetId()} }

// watches are the watches between this node and others, by the address of the other node. It is
// safe for concurrent use, and each watch can be taken out once.
type watches struct {
	mu sync.Mutex
	at map[string]map[watch]*actor.PID // address → watch → the actor there
}

// add notes a watch of, or by, an actor of another node.
func (w *watches) add(there *actor.PID, one watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = make(map[string]map[watch]*actor.PID)
	}
	if w.at[there.GetAddress()] == nil {
		w.at[there.GetAddress()] = make(map[watch]*actor.PID)
	}
	w.at[there.GetAddress()][one] = there
}

// remove reports whether the watch was there; now it is not.
func (w *watches) remove(there *actor.PID, one watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at[there.GetAddress()]
	_, ok := at[one]
	delete(at, one)
	return ok
}

// takeAll returns the watches of an address and forgets them.
func (w *watches) takeAll(address string) map[watch]*actor.PID {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.at[address]
	delete(w.at, address)
	return all
}

// failWatches tells the watchers of this node that the actors at an address are lost.
func (l *Link) failWatches(address string) {
	for w, there := range l.guard.watches.takeAll(address) {
		l.guard.terminated(actor.NewPID(l.cfg.System.Address(), w.watcher), there, actor.TerminatedReason_AddressTerminated)
	}
}

// dropWatchers makes the actors of this node forget their watchers at an address that is lost,
// since a node that is lost cannot unwatch.
func (l *Link) dropWatchers(address string) {
	for w, there := range l.watchers.takeAll(address) {
		if ref, ok := l.cfg.System.ProcessRegistry.GetLocal(w.watched); ok {
			ref.SendSystemMessage(actor.NewPID(l.cfg.System.Address(), w.watched), &actor.Unwatch{Watcher: there})
		}
	}
}
