package device

import (
	"time"

	"troupe/core/hbm"
	"troupe/core/residency"
)

// retryFreeing is the RetryAfter for a lease that is being freed.
const retryFreeing = 100 * time.Millisecond

// inspect starts a load.
func (m *Memory) inspect(h *holder, e event) {
	h.spec, h.started, h.requests = e.spec, e.now, []Request{e.request}
	h.owner, h.since = e.request.From, e.spec.Started
	m.emit(Inspect{e.spec})
}

func (m *Memory) joinLoad(h *holder, e event) {
	h.since = e.spec.Started
	h.requests = join(h.requests, e.request)
}

func (m *Memory) joinResize(h *holder, e event) {
	h.since = e.spec.Started
	h.kv.requests = join(h.kv.requests, e.request)
}

func (m *Memory) adopt(h *holder, e event) {
	h.since = e.spec.Started
	m.answerLoad(h, e.request, true, 0)
}

// notOwner reports whether a load does not come from the actor that loaded the lease, or comes from
// one of its earlier incarnations.
func (m *Memory) notOwner(h *holder, e event) bool {
	return e.request.From != h.owner || e.spec.Started < h.since
}

func (m *Memory) refuseStranger(h *holder, e event) {
	m.emit(RefuseLoad{e.request, e.spec, Refusal{Reason: NotOwner,
		Detail: "lease " + h.lease + " belongs to another actor or to a later incarnation of the replica"}})
}

func (m *Memory) answerLoad(h *holder, r Request, adopted bool, took time.Duration) {
	m.emit(AnswerLoad{To: r, Model: h.model, BlocksAlone: m.blocksAlone(h), Adopted: adopted, Took: took,
		Shared: h.shared && !adopted})
}

// admit lets a load that fits the budget wait for memory. Waiting loads are tried after each event.
func (m *Memory) admit(h *holder, e event) {
	h.size = e.size
	h.copy = m.weights.Want(h.lease, sourceOf(h.spec, e.size, e.files), e.now)
}

// load leases the pages of a lease and gets its weights.
func (m *Memory) load(h *holder, e event) {
	m.leasePages(h.lease, h.size, e.blocks, h.size.BlockBytes, h.spec.AdapterPages)
	h.blocks = e.blocks
	c, _ := m.weights.Copy(h.copy)
	h.shared = c.State != residency.Wanted
	m.performWeights(m.weights.Grant(h.lease, h.copy, e.now), Failure{}, e.now)
}

func (m *Memory) keepCopy(h *holder, e event) { h.copy = e.copy }

// open allocates the KV memory of a lease whose weights are on the device.
func (m *Memory) open(h *holder, e event) {
	h.copy = e.copy
	m.emit(Open{h.spec, h.owner, h.copy, h.blocks})
}

// weightsFailed ends a load whose weights could not be loaded.
func (m *Memory) weightsFailed(h *holder, e event) {
	m.ledger.Release(h.lease)
	h.copy = 0
	m.refuseFailed(h, e)
}

// leasePages leases the pages of a lease, without its weights. The pages must be free.
func (m *Memory) leasePages(lease string, s Size, blocks int, blockBytes int64, adapterPages int) {
	for _, part := range parts(s, blocks, blockBytes, adapterPages) {
		if part.bytes == 0 {
			continue
		}
		if _, short := m.ledger.Lease(lease, part.kind, part.bytes); short != nil {
			panic("device: " + m.cfg.Name + " holds more memory than it has: " + short.Error())
		}
	}
}

// part is a part of a lease's memory that has its own entry in the ledger.
type part struct {
	kind  string
	bytes int64
}

func parts(s Size, blocks int, blockBytes int64, adapterPages int) []part {
	return []part{
		{"workspace", s.Workspace}, {"graphs", s.Graphs}, {"kv", int64(blocks) * blockBytes},
		{"adapters", int64(adapterPages) * hbm.PageBytes},
	}
}

// tryLoad loads a waiting model if there is enough memory, or refuses it if replicas cannot yield
// enough.
func (m *Memory) tryLoad(h *holder, now time.Time) {
	fixed, share := hbm.PagesOf(h.need().Fixed)+m.missingWeights(h), m.shares()[h.lease]
	if !m.makeRoom(h.lease, fixed+share.guaranteed, &h.deadline, now) {
		return
	}
	deny := func(why string, missing int) {
		m.follow(event{kind: Denied, lease: h.lease, now: now, refusal: Refusal{Reason: NoMemory, Detail: why,
			Overload: m.overloadOf(h, missing), Evictable: m.weights.Reclaimable()}})
	}
	free := m.freePages() - fixed
	if free < share.guaranteed {
		deny(m.cfg.Name+": replicas did not yield KV memory in time; the load is retried", share.guaranteed-free)
		return
	}
	kv := int64(min(free, max(share.guaranteed, share.full))) * hbm.PageBytes
	blocks := max(0, min(h.size.MaxBlocks, int(kv/max(1, h.size.BlockBytes))))
	pages := m.missingWeights(h)
	for _, part := range parts(h.size, blocks, h.size.BlockBytes, h.spec.AdapterPages) {
		pages += hbm.PagesOf(part.bytes)
	}
	if short := m.shortOf(pages); short != nil {
		deny(m.cfg.Name+": "+short.Error(), pages-m.freePages())
		return
	}
	m.follow(event{kind: Granted, lease: h.lease, now: now, blocks: blocks})
}

// loaded makes the model resident.
func (m *Memory) loaded(h *holder, e event) {
	h.model, h.size, m.lastDemand = e.model, e.model.Size, e.now
	m.performWeights(m.weights.Activate(h.lease, h.copy, e.now), Failure{}, e.now)
	took := e.now.Sub(h.started)
	m.emit(ModelLoaded{h.lease, h.model.Size.Weights, took})
	for _, r := range h.requests {
		m.answerLoad(h, r, false, took)
	}
	h.requests = nil
	m.follow(event{kind: Opened, lease: h.lease, now: e.now})
}

// recovered makes a model resident that an earlier incarnation has loaded.
func (m *Memory) recovered(h *holder, e event) {
	h.model, h.size, h.copy, h.owner = e.model, e.model.Size, e.model.Copy, e.model.Owner
	m.weights.Use(h.lease, h.copy, e.now)
	m.performWeights(m.weights.Activate(h.lease, h.copy, e.now), Failure{}, e.now)
	m.leasePages(h.lease, h.size, h.model.Blocks, h.model.BlockBytes, h.model.AdapterPages)
	m.follow(event{kind: Opened, lease: h.lease, now: e.now})
}

// loadFailed ends a load whose KV memory could not be allocated. Its weights go too, unless they
// have served before.
func (m *Memory) loadFailed(h *holder, e event) {
	m.ledger.Release(h.lease)
	m.leaveWeights(h, residency.Keep, e.now)
	m.detectLoss(e.failure)
	m.refuseFailed(h, e)
}

func (m *Memory) detectLoss(f Failure) {
	if f.Cause == DeviceLost {
		m.emit(LossDetected{f.Detail})
	}
}
