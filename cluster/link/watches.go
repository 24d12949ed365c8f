package link

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// watch is a pair of actors on different nodes.
type watch struct{ watcher, watched string } // ids

func watchOf(watcher, watched *actor.PID) watch { return watch{watcher.GetId(), watched.GetId()} }

// watches are the watches between this node and others, grouped by the address of the other node.
// It is safe for concurrent use, and each watch can be removed once.
type watches struct {
	mu sync.Mutex
	at map[string]map[watch]*actor.PID // address → watch → the remote actor
}

// add records a watch of, or by, an actor of another node.
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

// remove removes a watch and reports whether it was present.
func (w *watches) remove(there *actor.PID, one watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at[there.GetAddress()]
	_, ok := at[one]
	delete(at, one)
	return ok
}

// takeAll removes and returns the watches of an address.
func (w *watches) takeAll(address string) map[watch]*actor.PID {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.at[address]
	delete(w.at, address)
	return all
}

func sortedWatches(all map[watch]*actor.PID) []watch {
	return slices.SortedFunc(maps.Keys(all), func(a, b watch) int {
		return cmp.Or(strings.Compare(a.watcher, b.watcher), strings.Compare(a.watched, b.watched))
	})
}

// failWatches tells the watchers on this node that the actors at an address are lost.
func (l *Link) failWatches(address string) {
	all := l.guard.watches.takeAll(address)
	for _, w := range sortedWatches(all) {
		l.guard.terminated(
			actor.NewPID(l.cfg.System.Address(), w.watcher),
			all[w],
			actor.TerminatedReason_AddressTerminated,
		)
	}
}

// dropWatchers removes the watchers at a lost address from the actors of this node, since a lost
// node cannot unwatch.
func (l *Link) dropWatchers(address string) {
	all := l.watchers.takeAll(address)
	for _, w := range sortedWatches(all) {
		if ref, ok := l.cfg.System.ProcessRegistry.GetLocal(w.watched); ok {
			ref.SendSystemMessage(actor.NewPID(l.cfg.System.Address(), w.watched), &actor.Unwatch{Watcher: all[w]})
		}
	}
}
