package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// watches are who watches whom at each address. Whoever takes a watch out of it tells the watcher, once.
type watches struct {
	mu sync.Mutex
	at map[string]map[watch]*actor.PID // address → watch → who is watched
}

type watch struct{ watcher, watched string } // ids

func (w *watches) add(watcher, who *actor.PID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = make(map[string]map[watch]*actor.PID)
	}
	if w.at[who.GetAddress()] == nil {
		w.at[who.GetAddress()] = make(map[watch]*actor.PID)
	}
	w.at[who.GetAddress()][watch{watcher.GetId(), who.GetId()}] = who
}

// remove reports whether the watch was there; now it is not.
func (w *watches) remove(watcher, who *actor.PID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at[who.GetAddress()]
	_, ok := at[watch{watcher.GetId(), who.GetId()}]
	delete(at, watch{watcher.GetId(), who.GetId()})
	return ok
}

// takeAll returns the watches at an address and forgets them.
func (w *watches) takeAll(address string) map[watch]*actor.PID {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.at[address]
	delete(w.at, address)
	return all
}

// failWatches tells all watchers that an address is lost.
func (l *Link) failWatches(address string) {
	for w, who := range l.guard.watches.takeAll(address) {
		l.guard.terminated(actor.NewPID(l.cfg.System.Address(), w.watcher), who, actor.TerminatedReason_AddressTerminated)
	}
}
