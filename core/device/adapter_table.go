package device

import "troupe/core/table"

var (
	noAdapters = []Adapters{None}
	queued     = []Adapters{Queued}
	allocating = []Adapters{Allocating}
	pending    = []Adapters{Queued, Allocating}
	leased     = []Adapters{Leased}
)

var (
	notResident = guard{"not resident", func(_ *Memory, h *holder, _ event) bool { return !h.resident() }}
	hasPages    = guard{"has pages", func(_ *Memory, h *holder, _ event) bool { return h.model.AdapterPages > 0 }}
	staleGrant  = guard{"of an earlier attempt", func(_ *Memory, h *holder, e event) bool {
		return e.attempt != h.adapters.attempt
	}}
)

// adapterTable is the table of adapter memory in doc.go. The first row that fits applies.
var adapterTable = table.New("device adapters", []row[Adapters]{
	{noAdapters, Opened, hasPages, Leased, (*Memory).nothing, "—"},
	{noAdapters, Opened, always, same, (*Memory).nothing, "—"},

	{pending, AdaptersAsked, always, same, (*Memory).joinAdapters, "wait"},
	{[]Adapters{None, Leased}, AdaptersAsked, notResident, same, (*Memory).refuseNotHeld, "refuse"},
	{leased, AdaptersAsked, always, same, (*Memory).answerAdapters, "answer"},
	{noAdapters, AdaptersAsked, always, Queued, (*Memory).queueAdapters, "wait"},

	{queued, PagesGranted, always, Allocating, (*Memory).allocate, "lease pages; allocate"},
	{queued, PagesDenied, always, None, (*Memory).denyAdapters, "refuse all"},

	{allocating, Allocated, staleGrant, same, nil, "ignore"},
	{allocating, Allocated, always, Leased, (*Memory).allocated, "answer all"},
	{allocating, NotAllocated, staleGrant, same, nil, "ignore"},
	{allocating, NotAllocated, always, None, (*Memory).notAllocated, "release the pages; refuse all"},

	{queued, Leaving, always, None, (*Memory).refuseLeaving, "refuse all"},
	{[]Adapters{None, Allocating, Leased}, Leaving, always, same, (*Memory).nothing, "—"},
	{[]Adapters{None, Leased}, Closed, always, None, (*Memory).nothing, "—"},
})
