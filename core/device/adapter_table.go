package device

import "troupe/core/table"

var (
	noAdapters = []Adapters{None}
	queued     = []Adapters{Queued}
	allocating = []Adapters{Allocating}
	pending    = []Adapters{Queued, Allocating}
	leased     = []Adapters{Leased}
	recalled   = []Adapters{Recalled}
	inChange   = []Adapters{Changing}
	inPlace    = []Adapters{Leased, Recalled, Changing}
)

var (
	notResident = guard{"not resident", func(_ *Memory, h *holder, _ event) bool { return !h.resident() }}
	hasPages    = guard{"has pages", func(_ *Memory, h *holder, _ event) bool { return h.model.AdapterPages > 0 }}
	staleGrant  = guard{"of an earlier attempt", func(_ *Memory, h *holder, e event) bool {
		return e.attempt != h.adapters.attempt
	}}
	mayGrow = guard{"may grow", func(m *Memory, h *holder, e event) bool {
		return m.pagesToGrow(h, e) > 0
	}}
	needsAnswer = guard{"needs an answer", func(_ *Memory, h *holder, e event) bool {
		return e.pool.Wanted > 0 || e.pool.Pages != h.model.AdapterPages || e.pool.Shrinks
	}}
	poolOutOfTime = guard{"deadline passed", func(_ *Memory, h *holder, e event) bool {
		return !e.now.Before(h.adapters.until)
	}}
)

// adapterTable is the table of adapter memory in doc.go. The first row that fits applies.
var adapterTable = table.New("device adapters", []row[Adapters]{
	{noAdapters, Opened, hasPages, Leased, (*Memory).keepAttempt, "—"},
	{noAdapters, Opened, always, same, (*Memory).nothing, "—"},

	{pending, AdaptersAsked, always, same, (*Memory).joinAdapters, "wait"},
	{[]Adapters{None, Leased, Changing}, AdaptersAsked, notResident, same, (*Memory).refuseNotHeld, "refuse"},
	{inPlace, AdaptersAsked, always, same, (*Memory).answerAdapters, "answer"},
	{noAdapters, AdaptersAsked, always, Queued, (*Memory).queueAdapters, "wait"},

	{queued, PagesGranted, always, Allocating, (*Memory).allocate, "lease pages; allocate"},
	{queued, PagesDenied, always, None, (*Memory).denyAdapters, "refuse all"},

	{allocating, Allocated, staleGrant, same, nil, "ignore"},
	{allocating, Allocated, always, Leased, (*Memory).allocated, "answer all"},
	{allocating, NotAllocated, staleGrant, same, nil, "ignore"},
	{allocating, NotAllocated, always, None, (*Memory).notAllocated, "release the pages; refuse all"},

	{leased, PoolReported, mayGrow, Changing, (*Memory).growPages, "lease pages; change"},
	{leased, PoolReported, needsAnswer, same, (*Memory).correctPool, "keep the report; notify the pool"},
	{inPlace, PoolReported, always, same, (*Memory).keepPool, "keep the report"},

	{leased, PoolChosen, always, Recalled, (*Memory).recall, "ask the pool"},
	{recalled, PoolTimedOut, staleGrant, same, nil, "ignore"},
	{recalled, PoolTimedOut, poolOutOfTime, Changing, (*Memory).collectLate, "forget the report; change"},
	{recalled, PoolTimedOut, always, same, (*Memory).recallAgain, "ask again"},
	{leased, PoolShrunk, always, same, (*Memory).notifyPoolSender, "notify the pool"},
	{recalled, PoolShrunk, staleGrant, same, (*Memory).notifyPoolSender, "notify the pool"},
	{recalled, PoolShrunk, always, Changing, (*Memory).collect, "change"},
	{inChange, PoolShrunk, always, same, (*Memory).nothing, "—"},

	{inChange, PagesChanged, staleGrant, same, nil, "ignore"},
	{inChange, PagesChanged, always, Leased, (*Memory).pagesChanged, "release pages; notify the pool"},
	{inChange, PagesNotChanged, staleGrant, same, nil, "ignore"},
	{inChange, PagesNotChanged, unresizable, Leased, (*Memory).fixPages, "never again; notify the pool"},
	{inChange, PagesNotChanged, always, Leased, (*Memory).pagesNotChanged, "release pages; notify the pool"},

	{queued, Leaving, always, None, (*Memory).refuseLeaving, "refuse all"},
	{recalled, Leaving, always, Leased, (*Memory).nothing, "—"},
	{[]Adapters{None, Allocating}, Leaving, always, same, (*Memory).nothing, "—"},
	{[]Adapters{Leased, Changing}, Leaving, always, same, (*Memory).nothing, "—"},
	{[]Adapters{None, Leased}, Closed, always, None, (*Memory).nothing, "—"},
})
