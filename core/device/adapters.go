package device

import (
	"cmp"
	"fmt"
	"time"

	"troupe/core/hbm"
)

func (m *Memory) joinAdapters(h *holder, e event) {
	h.adapters.requests = join(h.adapters.requests, e.request)
}

func (m *Memory) refuseNotHeld(h *holder, e event) {
	why := "lease " + h.lease + " is not held on " + m.cfg.Name
	m.emit(RefuseAdapters{e.request, Refusal{Reason: NotFound, Detail: why}})
}

func (m *Memory) answerAdapters(h *holder, e event) {
	m.emit(AnswerAdapters{e.request, h.lease, h.model.AdapterPages})
}

// queueAdapters lets a request wait for memory. Waiting requests are tried after each event.
func (m *Memory) queueAdapters(h *holder, e event) {
	h.adapters = adapterMemory{pages: e.pages, requests: []Request{e.request}}
}

// tryAdapters leases memory for adapters if there is enough. If too few pages are free, KV memory
// yields some first.
func (m *Memory) tryAdapters(h *holder, now time.Time) {
	pages := m.adapterPages(h)
	if !m.makeRoom(h.lease, pages, &h.adapters.deadline, now) {
		return
	}
	if free := m.freePages(); h.adapters.pages == 0 && free < pages { // KV memory did not yield
		if pages = free; free < h.size.PagesPerAdapter {
			pages = 0
		}
	}
	short := m.shortOf(pages)
	if pages > 0 && short == nil {
		m.follow(event{kind: PagesGranted, lease: h.lease, now: now, pages: pages})
		return
	}
	why := fmt.Sprintf("%s has %d MiB free, too little for one adapter, and KV memory cannot yield more; "+
		"deploy the model with adapter_pages, or delete another model", m.cfg.Name, m.ledger.Free()>>20)
	if pages > 0 {
		why = m.cfg.Name + ": " + short.Error()
	}
	m.follow(event{kind: PagesDenied, lease: h.lease, now: now, refusal: Refusal{Reason: NoMemory, Detail: why}})
}

// adapterPages returns the number of pages requested. The default is enough for the adapters of one
// step, but at most half of the spare memory and at least enough for one adapter.
func (m *Memory) adapterPages(h *holder) int {
	spare, one := int(m.budget().Spare()/hbm.PageBytes), h.size.PagesPerAdapter
	return cmp.Or(h.adapters.pages, max(one, min(h.size.MaxAdapters*one, spare/2)))
}

// allocate leases pages for adapters and allocates them.
func (m *Memory) allocate(h *holder, e event) {
	if _, short := m.ledger.Lease(h.lease, "adapters", int64(e.pages)*hbm.PageBytes); short != nil {
		panic("device: " + m.cfg.Name + " grants pages that are not free: " + short.Error())
	}
	m.attempt++
	h.adapters.attempt = m.attempt
	m.emit(Allocate{h.lease, e.pages, h.leastPages(e.pages), m.attempt})
}

// leastPages returns how many of the granted pages are never asked back: those that were requested, or
// enough for one adapter.
func (h *holder) leastPages(granted int) int {
	return min(granted, cmp.Or(h.adapters.pages, h.size.PagesPerAdapter))
}

func (m *Memory) allocated(h *holder, e event) {
	h.model.AdapterPages, h.model.AdapterMin = e.pages, h.leastPages(e.pages)
	for _, r := range h.adapters.requests {
		m.emit(AnswerAdapters{r, h.lease, e.pages})
	}
	h.adapters.requests = nil
	m.settled(h, e)
}

func (m *Memory) notAllocated(h *holder, e event) {
	m.ledger.ReleaseKind(h.lease, "adapters")
	m.emit(AllocateFailed{h.lease, e.failure.Detail})
	why := e.failure.reason()
	if e.failure.Cause == Unsupported {
		why = NotSupported
	}
	m.refuseAdapters(h, Refusal{Reason: why, Detail: e.failure.Detail})
	m.detectLoss(e.failure)
	m.settled(h, e)
}

func (m *Memory) denyAdapters(h *holder, e event) { m.refuseAdapters(h, e.refusal) }

// refuseLeaving refuses the requests for adapter memory of a lease that is being freed.
func (m *Memory) refuseLeaving(h *holder, _ event) {
	m.refuseAdapters(h, Refusal{Reason: NotFound, Detail: "lease " + h.lease + " is no longer held on " + m.cfg.Name})
}

func (m *Memory) refuseAdapters(h *holder, why Refusal) {
	for _, r := range h.adapters.requests {
		m.emit(RefuseAdapters{r, why})
	}
	h.adapters.requests = nil
}
