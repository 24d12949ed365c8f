// Package adapteruse counts what the adapters of a node are used for.
package adapteruse

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"
)

// Limit is the number of adapters that a record counts. Beyond it, the one without an event for longest is forgotten.
const Limit = 4096

// Key is one revision of an adapter.
type Key struct {
	Model   string // the deployment
	Adapter string // "name@revision"
}

// Use is what an adapter was used for since the node started.
type Use struct {
	Key
	Sequences uint64    // of this node's gateway that were served with it
	Loads     uint64    // copies to devices of this node
	LastUsed  time.Time // when the last of these sequences ended; zero: none has
}

// Record counts the sequences that a node's gateway has served with adapters, and the loads of adapters to its devices.
// It outlives the actors that report them. The zero value is empty. It is safe for concurrent use.
type Record struct {
	mu    sync.Mutex
	uses  map[Key]*list.Element // of order
	order list.List             // of *Use, the one with the latest event first
}

// Served counts a sequence that was served with an adapter.
func (r *Record) Served(of Key, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.at(of)
	u.Sequences++
	u.LastUsed = now
}

// Loaded counts a copy of an adapter to a device.
func (r *Record) Loaded(of Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(of).Loads++
}

// at returns the use of an adapter, which has an event. The lock is held.
func (r *Record) at(of Key) *Use {
	if e, ok := r.uses[of]; ok {
		r.order.MoveToFront(e)
		return e.Value.(*Use)
	}
	if r.uses == nil {
		r.uses = make(map[Key]*list.Element)
	}
	if r.order.Len() == Limit {
		delete(r.uses, r.order.Remove(r.order.Back()).(*Use).Key)
	}
	u := &Use{Key: of}
	r.uses[of] = r.order.PushFront(u)
	return u
}

// All returns the uses of the adapters of a model, or of all models if model is empty, by model and adapter. If adapter
// is not empty, only this one is returned.
func (r *Record) All(model, adapter string) (all []Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Front(); e != nil; e = e.Next() {
		u := e.Value.(*Use)
		if (model == "" || u.Model == model) && (adapter == "" || u.Adapter == adapter) {
			all = append(all, *u)
		}
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Adapter, b.Adapter))
	})
	return all
}
