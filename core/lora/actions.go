package lora

import (
	"maps"
	"slices"
)

// Action is something that the pool's caller is to carry out.
type Action interface{ isAction() }

// Load: copy an adapter into these pages, and report with Loaded.
type Load struct {
	Adapter string
	Table   Table
	From    Tier
	Keep    bool // keep what was read from disk in host memory
}

// Evict: see that nothing reads an adapter's pages any more, and report with Evicted.
type Evict struct{ Adapter string }

// Drop: free an adapter's host memory.
type Drop struct{ Adapter string }

// Ready: the adapter that a request waited for is on the device.
type Ready struct{ Request, Adapter string }

// Lost: a request that waited holds nothing any more.
type Lost struct {
	Request, Adapter string
	Refusal          *Refusal
}

func (Load) isAction()  {}
func (Evict) isAction() {}
func (Drop) isAction()  {}
func (Ready) isAction() {}
func (Lost) isAction()  {}

// Actions returns what is to be done since the last call, in order.
func (p *Pool) Actions() []Action {
	actions := p.actions
	p.actions = nil
	return actions
}

func (p *Pool) act(a Action) { p.actions = append(p.actions, a) }

// load begins to bring an adapter to the device. Where pages are missing, idle adapters that may be evicted make room, in
// the pool's order; it reports false, and does nothing, where all of them together are not enough.
func (p *Pool) load(a *adapter, may func(*adapter) bool) bool {
	need := a.layout.Pages() - (p.pages.Left() + p.evicting - p.owed)
	var victims []*adapter
	if need > 0 {
		if victims = p.victims(need, may); victims == nil {
			return false
		}
	}
	a.state = Loading
	p.pending = append(p.pending, a)
	p.owed += a.layout.Pages()
	for _, v := range victims {
		p.evict(v)
	}
	p.settle()
	return true
}

// victims returns idle adapters with so many pages at least, or none.
func (p *Pool) victims(pages int, may func(*adapter) bool) []*adapter {
	var idle []*adapter
	for _, a := range p.adapters {
		if a.state == Idle && may(a) {
			idle = append(idle, a)
		}
	}
	slices.SortFunc(idle, p.before)
	for i, a := range idle {
		if pages -= len(a.pages); pages <= 0 {
			return idle[:i+1]
		}
	}
	return nil
}

func (p *Pool) evict(a *adapter) {
	a.state = Evicting
	p.evicting += len(a.pages)
	p.stats.Evictions++
	p.act(Evict{a.id})
}

// Evicted says that nothing reads an adapter's pages any more.
func (p *Pool) Evicted(id string) {
	a, ok := p.adapters[id]
	if !ok || a.state != Evicting {
		return
	}
	p.evicting -= len(a.pages)
	p.vacate(a)
	p.leave(a)
	p.settle()
}

// vacate gives an adapter's pages back.
func (p *Pool) vacate(a *adapter) {
	p.pages.Free(a.pages)
	a.state, a.pages = Absent, nil
}

// abandon ends a load that no page was given to.
func (p *Pool) abandon(a *adapter) {
	p.pending = slices.DeleteFunc(p.pending, func(b *adapter) bool { return a == b })
	p.owed -= a.layout.Pages()
	a.state = Absent
}

// settle gives pages to those that wait for them, in order.
func (p *Pool) settle() {
	for len(p.pending) > 0 {
		a := p.pending[0]
		pages, ok := p.pages.Allocate(a.layout.Pages())
		if !ok {
			return
		}
		p.pending = p.pending[1:]
		p.owed -= len(pages)
		a.pages = pages
		from := a.tier()
		if from == Disk {
			p.stats.Reads++
			p.keep(a)
		}
		p.stats.Loads++
		p.act(Load{Adapter: a.id, Table: Table{a.layout, pages}, From: from, Keep: from == Disk && a.dram})
	}
}

// Loaded ends a load, well or not. Requests that waited for it are told.
func (p *Pool) Loaded(id string, err error) {
	a, ok := p.adapters[id]
	if !ok || a.state != Loading || a.pages == nil {
		return
	}
	if err != nil {
		p.failed(a, err)
		return
	}
	a.state = Idle
	if len(a.users) > 0 {
		a.state = Active
	}
	for _, request := range slices.Sorted(maps.Keys(a.users)) {
		p.act(Ready{request, id})
	}
	p.leave(a)
}

// failed takes back what an adapter that could not be loaded was given, and its requests with it.
func (p *Pool) failed(a *adapter, err error) {
	p.stats.Failures++
	p.vacate(a)
	p.dropHost(a)
	for _, request := range slices.Sorted(maps.Keys(a.users)) {
		delete(p.requests, request)
		p.act(Lost{request, a.id, refuse(Failed, "load adapter %s: %v", a.id, err)})
	}
	clear(a.users)
	p.leave(a)
	p.settle()
}
