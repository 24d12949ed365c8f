// Package adapteruse counts what the adapters of a node are used for.
package adapteruse

import (
	"cmp"
	"container/list"
	"math"
	"slices"
	"sync"
	"time"

	"troupe/core/schedule"
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

// HalfLife is the time after which a sequence counts half in the popularity of an adapter.
const HalfLife = schedule.UseHalfLife

// Popular is how popular an adapter is.
type Popular struct {
	Key
	Uses     float64 // sequences of this node's gateway, each counting half as much after each HalfLife
	LastUsed time.Time
}

// entry is a use, with Popular.Uses at its LastUsed.
type entry struct {
	Use
	uses float64
}

// popularity returns Popular.Uses.
func (e *entry) popularity(now time.Time) float64 {
	return e.uses * math.Exp2(-float64(max(0, now.Sub(e.LastUsed)))/float64(HalfLife))
}

// Record counts the sequences that a node's gateway has served with adapters, and the loads of adapters to its devices.
// It outlives the actors that report them. The zero value is empty. It is safe for concurrent use.
type Record struct {
	mu    sync.Mutex
	uses  map[Key]*list.Element // of order
	order list.List             // of *entry, the one with the latest event first
}

// Served counts a sequence that was served with an adapter.
func (r *Record) Served(of Key, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.at(of)
	u.Sequences++
	u.uses = u.popularity(now) + 1
	u.LastUsed = now
}

// Loaded counts a copy of an adapter to a device.
func (r *Record) Loaded(of Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(of).Loads++
}

// at returns the use of an adapter, which has an event. The lock is held.
func (r *Record) at(of Key) *entry {
	if e, ok := r.uses[of]; ok {
		r.order.MoveToFront(e)
		return e.Value.(*entry)
	}
	if r.uses == nil {
		r.uses = make(map[Key]*list.Element)
	}
	if r.order.Len() == Limit {
		delete(r.uses, r.order.Remove(r.order.Back()).(*entry).Key)
	}
	u := &entry{Use: Use{Key: of}}
	r.uses[of] = r.order.PushFront(u)
	return u
}

// Popular returns the most popular adapters, at most n, the most popular one first.
func (r *Record) Popular(n int, now time.Time) (all []Popular) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Front(); e != nil; e = e.Next() {
		if u := e.Value.(*entry); u.Sequences > 0 {
			all = append(all, Popular{u.Key, u.popularity(now), u.LastUsed})
		}
	}
	slices.SortFunc(all, func(a, b Popular) int {
		return cmp.Or(cmp.Compare(b.Uses, a.Uses), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Adapter, b.Adapter))
	})
	return all[:min(n, len(all))]
}

// All returns the uses of the adapters of a model, or of all models if model is empty, by model and adapter. If adapter
// is not empty, only this one is returned.
func (r *Record) All(model, adapter string) (all []Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Front(); e != nil; e = e.Next() {
		u := &e.Value.(*entry).Use
		if (model == "" || u.Model == model) && (adapter == "" || u.Adapter == adapter) {
			all = append(all, *u)
		}
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Adapter, b.Adapter))
	})
	return all
}
