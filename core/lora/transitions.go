package lora

import (
	"maps"
	"slices"
)

// pageCount returns the number of pages that the adapter of an event needs.
func (e *event) pageCount() int {
	if e.layout != nil {
		return e.layout.Pages()
	}
	return e.a.layout.Pages()
}

func (p *Pool) tooLarge(e *event) bool { return e.pageCount() > p.pages.Total() }

func (p *Pool) beingDeleted(e *event) bool { return e.a.deleted }

func (p *Pool) hasRequests(e *event) bool { return len(e.a.users) > 0 }

func (p *Pool) hasNoRequests(e *event) bool { return len(e.a.users) == 0 }

func (p *Pool) canRecover(e *event) bool {
	return len(e.pages) == e.a.layout.Pages() && p.pages.Reservable(e.pages)
}

// lacksRoom reports whether an adapter would lack pages even if all adapters that may be evicted
// for it were. If not, it selects the adapters to evict, unless the pool can grow.
func (p *Pool) lacksRoom(e *event) bool {
	need := e.pageCount() + p.shortage()
	if need <= 0 {
		return false
	}
	if e.kind != onPrefetch && p.mayGrow() {
		e.grow = need
		return false
	}
	e.victims = p.victims(need, e)
	return e.victims == nil
}

func (p *Pool) refuseTooLarge(e *event) {
	e.refusal = refuse(TooLarge, "adapter %s needs %d pages of 2 MiB and the pool has %d; give it more memory", e.a.id,
		e.pageCount(), p.pages.Total())
}

func (p *Pool) refuseRegisterDeleted(e *event) {
	e.refusal = refuse(Deleting, "adapter %s is being deleted; retry when its last request has ended", e.a.id)
}

func (p *Pool) refuseDuplicate(e *event) {
	e.refusal = refuse(Duplicate, "adapter %s is already registered; delete it first", e.a.id)
}

func (p *Pool) refuseUnknown(e *event) {
	e.refusal = refuse(Unknown, "adapter %s not found; register it first", e.a.id)
}

func (p *Pool) refuseDeleted(e *event) {
	e.refusal = refuse(Deleting, "adapter %s is being deleted", e.a.id)
}

func (p *Pool) refuseEvicting(e *event) {
	e.refusal = refuse(NoRoom, "adapter %s is being evicted; try again", e.a.id)
}

func (p *Pool) refuseNoRoom(e *event) {
	e.refusal = refuse(NoRoom, "adapter %s needs %d pages, and all others are in use; try again", e.a.id,
		e.pageCount())
}

func (p *Pool) startInspect(e *event) { p.emit(Inspect{e.a.id}) }

func (p *Pool) setLayout(e *event) { e.a.layout = e.layout }

// waitInspected puts an inspected adapter in line for pages. Its requests continue to wait.
func (p *Pool) waitInspected(e *event) {
	p.setLayout(e)
	p.wait(e)
}

func (p *Pool) loseTooLarge(e *event) {
	p.refuseTooLarge(e)
	p.lose(e.a, e.refusal)
}

func (p *Pool) loseNoRoom(e *event) {
	p.setLayout(e)
	p.refuseNoRoom(e)
	p.lose(e.a, e.refusal)
	e.refusal = nil // the adapter itself is accepted
}

func (p *Pool) failInspect(e *event) {
	e.refusal = refuse(Failed, "adapter %s: %v", e.a.id, e.err)
	p.lose(e.a, e.refusal)
}

// lose ends the requests of an adapter.
func (p *Pool) lose(a *adapter, why *Refusal) {
	for _, request := range slices.Sorted(maps.Keys(a.users)) {
		delete(p.requests, request)
		p.emit(Lost{request, a.id, why})
	}
	clear(a.users)
}

func (p *Pool) recoverPages(e *event) {
	p.pages.Reserve(e.pages)
	e.a.pages = e.pages
}

// hold pins the adapter for a request.
func (p *Pool) hold(e *event) {
	p.requests[e.request] = e.a
	e.a.users[e.request] = true
}

// wait puts the adapter in line for pages.
func (p *Pool) wait(e *event) {
	p.pending = append(p.pending, e.a)
	p.pendingPages += e.a.layout.Pages()
	if e.grow > 0 {
		p.wanted += e.grow
		p.emit(Grow{p.wanted})
	}
}

func (p *Pool) pinAndWait(e *event) {
	p.hold(e)
	p.wait(e)
}

// startLoad starts the load of the first adapter in line.
func (p *Pool) startLoad(e *event) {
	p.leaveLine(e.a)
	e.a.pages, _ = p.pages.Allocate(e.a.layout.Pages())
	p.stats.Loads++
	p.emit(Load{Adapter: e.a.id, Table: Table{e.a.layout, e.a.pages}})
}

func (p *Pool) leaveLine(a *adapter) {
	p.pending = slices.DeleteFunc(p.pending, func(b *adapter) bool { return a == b })
	p.pendingPages -= a.layout.Pages()
}

// cancelLoad cancels a load that has no pages yet.
func (p *Pool) cancelLoad(e *event) { p.leaveLine(e.a) }

// lackPages ends a load in line that gets no pages.
func (p *Pool) lackPages(e *event) {
	p.leaveLine(e.a)
	p.refuseNoRoom(e)
	p.lose(e.a, e.refusal)
}

// countLoad counts a load by its source.
func (p *Pool) countLoad(e *event) {
	switch e.from {
	case Disk:
		p.stats.Reads++
	case DRAM:
		p.stats.HostLoads++
	}
}

func (p *Pool) evictLoaded(e *event) {
	p.countLoad(e)
	p.startEvict(e)
}

func (p *Pool) reportReady(e *event) {
	p.countLoad(e)
	for _, request := range slices.Sorted(maps.Keys(e.a.users)) {
		p.emit(Ready{request, e.a.id})
	}
}

// failLoad releases the resources of an adapter whose load failed and ends its requests.
func (p *Pool) failLoad(e *event) {
	p.stats.Failures++
	p.freePages(e.a)
	p.lose(e.a, refuse(Failed, "load adapter %s: %v", e.a.id, e.err))
}

func (p *Pool) startEvict(e *event) {
	p.evictingPages += len(e.a.pages)
	p.stats.Evictions++
	p.emit(Evict{e.a.id})
}

func (p *Pool) finishEvict(e *event) {
	p.evictingPages -= len(e.a.pages)
	p.freePages(e.a)
}

func (p *Pool) freePages(a *adapter) {
	p.pages.Free(a.pages)
	a.pages = nil
}

func (p *Pool) markDeleted(e *event) { e.a.deleted = true }

func (p *Pool) deleteIdle(e *event) {
	p.markDeleted(e)
	p.startEvict(e)
}
