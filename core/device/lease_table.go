package device

import (
	"troupe/core/quarantine"
	"troupe/core/table"
)

var (
	absent    = []Phase{Absent}
	loading   = []Phase{Inspecting, Waiting, Loading, Opening}
	notLoaded = []Phase{Absent, Inspecting, Waiting, Loading, Opening}
	opening   = []Phase{Opening}
	ungranted = []Phase{Waiting, Loading}
	resident  = []Phase{Resident}
	freeing   = []Phase{Freeing}
)

var (
	excluded = guard{"quarantined", func(_ *Memory, _ *holder, e event) bool {
		return e.health != quarantine.Healthy
	}}
	deviceLost = guard{"device lost", func(_ *Memory, _ *holder, e event) bool {
		return e.health == quarantine.Lost
	}}
	inResize = guard{"resizing", func(_ *Memory, h *holder, _ event) bool { return h.kv.state == Resizing }}
	mismatch = guard{"another revision", func(_ *Memory, h *holder, e event) bool {
		return !h.model.fits(e.spec)
	}}
	changing   = guard{"still changing", func(_ *Memory, h *holder, _ event) bool { return h.changing() }}
	stranger   = guard{"not its owner", (*Memory).notOwner}
	overloaded = guard{"over budget", (*Memory).overloads}
)

// leases is the table of leases in doc.go. The first row that fits applies.
var leases = table.New("device lease", []row[Phase]{
	{notLoaded, LoadAsked, excluded, same, (*Memory).refuseQuarantined, "refuse"},
	{absent, LoadAsked, always, Inspecting, (*Memory).inspect, "inspect"},
	{loading, LoadAsked, stranger, same, (*Memory).refuseStranger, "refuse"},
	{loading, LoadAsked, always, same, (*Memory).joinLoad, "wait for the load"},
	{resident, LoadAsked, deviceLost, same, (*Memory).refuseQuarantined, "refuse"},
	{resident, LoadAsked, stranger, same, (*Memory).refuseStranger, "refuse"},
	{resident, LoadAsked, inResize, same, (*Memory).joinResize, "wait for the resize"},
	{resident, LoadAsked, mismatch, same, (*Memory).refuseMismatch, "refuse"},
	{resident, LoadAsked, always, same, (*Memory).adopt, "answer"},
	{freeing, LoadAsked, always, same, (*Memory).refuseFreeing, "refuse, to be retried"},

	{[]Phase{Inspecting}, Inspected, overloaded, Absent, (*Memory).refuseOverload, "refuse all"},
	{[]Phase{Inspecting}, Inspected, always, Waiting, (*Memory).admit, "count it in the budget"},
	{[]Phase{Inspecting}, InspectFailed, always, Absent, (*Memory).refuseFailed, "refuse all"},

	{[]Phase{Waiting}, Granted, always, Loading, (*Memory).load, "lease pages; load the weights, or join"},
	{[]Phase{Waiting}, Denied, always, Absent, (*Memory).refuseDenied, "refuse all"},

	{[]Phase{Waiting}, WeightsReady, always, same, (*Memory).keepCopy, "note the copy"},
	{[]Phase{Loading}, WeightsReady, always, Opening, (*Memory).open, "open"},
	{ungranted, WeightsFailed, always, Absent, (*Memory).weightsFailed, "release the pages; refuse all"},
	{opening, Loaded, always, Resident, (*Memory).loaded, "answer all"},
	{opening, LoadFailed, always, Absent, (*Memory).loadFailed, "release the pages and the weights; refuse all"},
	{absent, Recovered, always, Resident, (*Memory).recovered, "lease pages"},

	{absent, UnloadAsked, always, same, (*Memory).answerAbsent, "answer"},
	{loading, UnloadAsked, always, same, (*Memory).refuseLoading, "refuse"},
	{resident, UnloadAsked, always, Freeing, (*Memory).free, "stop what waits; free once settled"},
	{freeing, UnloadAsked, always, same, (*Memory).joinUnload, "wait for the unload"},
	{resident, Settled, always, same, (*Memory).nothing, "—"},
	{freeing, Settled, changing, same, (*Memory).nothing, "—"},
	{freeing, Settled, always, same, (*Memory).startFree, "free"},
	{freeing, Freed, always, Absent, (*Memory).freed, "release the pages; answer all"},
	{freeing, FreeFailed, always, Resident, (*Memory).freeFailed, "refuse all"},
})
