package device

import "troupe/core/table"

var (
	unused   = []KV{Unused}
	steady   = []KV{Steady}
	yielding = []KV{Yielding}
	resizing = []KV{Resizing}
	used     = []KV{Steady, Yielding, Resizing}
)

var (
	wrongCount = guard{"wrong number", func(_ *Memory, h *holder, e event) bool {
		return e.report.Blocks != h.model.Blocks
	}}
	stale = guard{"of an earlier attempt", func(_ *Memory, h *holder, e event) bool {
		return e.attempt != h.kv.attempt
	}}
	outOfTime = guard{"deadline passed", func(_ *Memory, h *holder, e event) bool {
		return !e.now.Before(h.kv.deadline)
	}}
	unresizable = guard{"cannot be resized", func(_ *Memory, _ *holder, e event) bool {
		return e.failure.Cause == Unsupported
	}}
)

// kvTable is the table of KV memory in doc.go. The first row that fits applies.
var kvTable = table.New("device KV memory", []row[KV]{
	{unused, Opened, always, Steady, (*Memory).nothing, "—"},

	{steady, Reported, wrongCount, same, (*Memory).correct, "keep the report; notify the replica"},
	{used, Reported, always, same, (*Memory).keepReport, "keep the report"},

	{steady, Chosen, always, Yielding, (*Memory).choose, "ask the replica"},
	{yielding, TimedOut, stale, same, nil, "ignore"},
	{yielding, TimedOut, outOfTime, Steady, (*Memory).giveUp, "forget the report; notify the replica"},
	{yielding, TimedOut, always, same, (*Memory).askAgain, "ask again"},

	{steady, Shrunk, always, same, (*Memory).notifySender, "notify the replica"},
	{yielding, Shrunk, stale, same, (*Memory).notifySender, "notify the replica"},
	{yielding, Shrunk, always, Resizing, (*Memory).shrink, "resize"},
	{resizing, Shrunk, always, same, (*Memory).nothing, "—"},
	{steady, Kept, always, same, (*Memory).notifySender, "notify the replica"},
	{yielding, Kept, stale, same, (*Memory).notifySender, "notify the replica"},
	{yielding, Kept, always, Steady, (*Memory).giveUp, "forget the report; notify the replica"},
	{resizing, Kept, always, same, (*Memory).nothing, "—"},

	{steady, Grown, always, Resizing, (*Memory).grow, "lease pages; resize"},
	{resizing, Resized, stale, same, nil, "ignore"},
	{resizing, Resized, always, Steady, (*Memory).resized, "release pages; notify the replica; answer"},
	{resizing, NotResized, stale, same, nil, "ignore"},
	{resizing, NotResized, unresizable, Steady, (*Memory).fix, "never again; notify the replica; answer"},
	{resizing, NotResized, always, Steady, (*Memory).notResized, "release pages; notify the replica; answer"},

	{yielding, Leaving, always, Steady, (*Memory).nothing, "—"},
	{resizing, Leaving, always, same, (*Memory).refuseJoined, "refuse the requests that wait"},
	{used, Leaving, always, same, (*Memory).nothing, "—"},
	{used, Closed, always, Unused, (*Memory).nothing, "—"},
})

func (m *Memory) nothing(*holder, event) {}
