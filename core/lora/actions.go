package lora

import (
	"maps"
	"slices"
)

// Action is an action for the pool's caller to carry out.
type Action interface{ isAction() }

// Load tells the caller to copy an adapter into these pages and to report with Loaded.
type Load struct {
	Adapter string
	Table   Table
	From    Tier
	Keep    bool // keep data read from disk in host memory
}

// Evict tells the caller to end all reads of an adapter's pages and to report with Evicted.
type Evict struct{ Adapter string }

// Drop tells the caller to free an adapter's host memory.
type Drop struct{ Adapter string }

// Ready reports that the adapter a request waits for is on the device.
type Ready struct{ Request, Adapter string }

// Lost reports that a waiting request no longer holds an adapter.
type Lost struct {
	Request, Adapter string
	Refusal          *Refusal
}

func (Load) isAction()  {}
func (Evict) isAction() {}
func (Drop) isAction()  {}
func (Ready) isAction() {}
func (Lost) isAction()  {}

// Actions returns the actions since the last call, in order.
func (p *Pool) Actions() []Action {
	actions := p.actions
	p.actions = nil
	return actions
}

func (p *Pool) emit(a Action) { p.actions = append(p.actions, a) }

// load starts loading an adapter to the device. If pages are missing it evicts eligible idle
// adapters, in the pool's order. It reports false and does nothing if all of them together have too
// few pages.
func (p *Pool) load(a *adapter, eligible func(*adapter) bool) bool {
	need := a.layout.Pages() - (p.pages.Available() + p.evictingPages - p.pendingPages)
	var victims []*adapter
	if need > 0 {
		if victims = p.victims(need, eligible); victims == nil {
			return false
		}
	}
	a.state = Loading
	p.pending = append(p.pending, a)
	p.pendingPages += a.layout.Pages()
	for _, v := range victims {
		p.evict(v)
	}
	p.startPending()
	return true
}

// freePages releases an adapter's pages.
func (p *Pool) freePages(a *adapter) {
	p.pages.Free(a.pages)
	a.state, a.pages = Absent, nil
}

// cancelLoad cancels a load that has no pages yet.
func (p *Pool) cancelLoad(a *adapter) {
	p.pending = slices.DeleteFunc(p.pending, func(b *adapter) bool { return a == b })
	p.pendingPages -= a.layout.Pages()
	a.state = Absent
}

// startPending starts the pending loads, in order, as long as pages are free.
func (p *Pool) startPending() {
	for len(p.pending) > 0 {
		a := p.pending[0]
		pages, ok := p.pages.Allocate(a.layout.Pages())
		if !ok {
			return
		}
		p.pending = p.pending[1:]
		p.pendingPages -= len(pages)
		a.pages = pages
		from := a.tier()
		if from == Disk {
			p.stats.Reads++
			p.cacheInHost(a)
		}
		p.stats.Loads++
		p.emit(Load{Adapter: a.id, Table: Table{a.layout, pages}, From: from, Keep: from == Disk && a.inHost})
	}
}

// Loaded ends a load, with or without an error. It reports the outcome to the waiting requests.
func (p *Pool) Loaded(id string, err error) {
	a, ok := p.adapters[id]
	if !ok || a.state != Loading || a.pages == nil {
		return
	}
	if err != nil {
		p.loadFailed(a, err)
		return
	}
	a.state = Idle
	if len(a.users) > 0 {
		a.state = Active
	}
	for _, request := range slices.Sorted(maps.Keys(a.users)) {
		p.emit(Ready{request, id})
	}
	p.finishDelete(a)
}

// loadFailed releases the resources of an adapter whose load failed and ends its requests.
func (p *Pool) loadFailed(a *adapter, err error) {
	p.stats.Failures++
	p.freePages(a)
	p.dropHost(a)
	for _, request := range slices.Sorted(maps.Keys(a.users)) {
		delete(p.requests, request)
		p.emit(Lost{request, a.id, refuse(Failed, "load adapter %s: %v", a.id, err)})
	}
	clear(a.users)
	p.finishDelete(a)
	p.startPending()
}
