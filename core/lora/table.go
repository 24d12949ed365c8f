package lora

import (
	"time"

	"troupe/core/table"
)

type (
	condition = func(*Pool, *event) bool
	action    = func(*Pool, *event)

	row   = table.Row[State, eventKind, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	registered = []State{Absent, Pending, Loading, Idle, Active, Evicting}
	inUse      = []State{Pending, Loading, Active}
	absent     = []State{Absent}
	pending    = []State{Pending}
	loading    = []State{Loading}
	idle       = []State{Idle}
	active     = []State{Active}
	evicting   = []State{Evicting}
	inspecting = []State{Inspecting}
	unknown    = []State{Unregistered}
)

var (
	always       = guard{}
	tooLarge     = guard{"larger than the pool", (*Pool).tooLarge}
	deleted      = guard{"being deleted", (*Pool).beingDeleted}
	pagesUsable  = guard{"its pages are free", (*Pool).canRecover}
	lacksRoom    = guard{"no room", (*Pool).lacksRoom}
	withRequests = guard{"with requests", (*Pool).hasRequests}
	unrequested  = guard{"without requests", (*Pool).hasNoRequests}
	otherRequest = guard{"others pin it", (*Pool).hasRequests}
)

// rows is the transition table of doc.go. The first row that fits applies.
var rows = table.New("adapter", []row{
	{unknown, onRegister, tooLarge, same, (*Pool).refuseTooLarge, "refuse: too large"},
	{unknown, onRegister, always, Absent, (*Pool).setLayout, "—"},
	{registered, onRegister, deleted, same, (*Pool).refuseRegisterDeleted, "refuse: deleting"},
	{registered, onRegister, always, same, (*Pool).refuseDuplicate, "refuse: duplicate"},

	{inspecting, onRegister, always, same, (*Pool).refuseDuplicate, "refuse: duplicate"},

	{unknown, onInspect, always, Inspecting, (*Pool).startInspect, "inspect its folder"},
	{inspecting, onInspect, always, same, (*Pool).nothing, "—"},
	{registered, onInspect, always, same, (*Pool).nothing, "—"},
	{inspecting, onInspected, tooLarge, Unregistered, (*Pool).loseTooLarge, "lost: too large"},
	{inspecting, onInspected, unrequested, Absent, (*Pool).setLayout, "—"},
	{inspecting, onInspected, lacksRoom, Absent, (*Pool).loseNoRoom, "lost: no room"},
	{inspecting, onInspected, always, Pending, (*Pool).waitInspected, "evict others"},
	{inspecting, onInspectFailed, always, Unregistered, (*Pool).failInspect, "lost"},

	{absent, onRecover, pagesUsable, Idle, (*Pool).recoverPages, "—"},

	{unknown, onPin, always, same, (*Pool).refuseUnknown, "refuse: unknown"},
	{registered, onPin, deleted, same, (*Pool).refuseDeleted, "refuse: deleting"},
	{evicting, onPin, always, same, (*Pool).refuseEvicting, "refuse: no room"},
	{absent, onPin, lacksRoom, same, (*Pool).refuseNoRoom, "refuse: no room"},
	{absent, onPin, always, Pending, (*Pool).pinAndWait, "hold it; evict others"},
	{idle, onPin, always, Active, (*Pool).hold, "hold it"},
	{inUse, onPin, always, same, (*Pool).hold, "hold it"},
	{inspecting, onPin, always, same, (*Pool).hold, "hold it"},

	{absent, onPrefetch, lacksRoom, same, nil, "ignore"},
	{absent, onPrefetch, always, Pending, (*Pool).wait, "evict others"},
	{pending, onPages, always, Loading, (*Pool).startLoad, "load"},

	{pending, onNoPages, deleted, Unregistered, (*Pool).lackPages, "lost: no room"},
	{pending, onNoPages, always, Absent, (*Pool).lackPages, "lost: no room"},

	{loading, onLoaded, withRequests, Active, (*Pool).reportReady, "ready"},
	{loading, onLoaded, deleted, Evicting, (*Pool).evictLoaded, "evict"},
	{loading, onLoaded, always, Idle, (*Pool).countLoad, "—"},
	{loading, onLoadFailed, deleted, Unregistered, (*Pool).failLoad, "free its pages; lost"},
	{loading, onLoadFailed, always, Absent, (*Pool).failLoad, "free its pages; lost"},

	{inUse, onUnpin, otherRequest, same, (*Pool).nothing, "—"},
	{active, onUnpin, deleted, Evicting, (*Pool).startEvict, "evict"},
	{active, onUnpin, always, Idle, (*Pool).nothing, "—"},
	{pending, onUnpin, deleted, Unregistered, (*Pool).cancelLoad, "cancel the load"},
	{pending, onUnpin, always, Absent, (*Pool).cancelLoad, "cancel the load"},
	{loading, onUnpin, always, same, (*Pool).nothing, "—"},
	{inspecting, onUnpin, always, same, (*Pool).nothing, "—"},

	{idle, onChosen, always, Evicting, (*Pool).startEvict, "evict"},
	{evicting, onEvicted, deleted, Unregistered, (*Pool).finishEvict, "free its pages"},
	{evicting, onEvicted, always, Absent, (*Pool).finishEvict, "free its pages"},

	{registered, onDelete, deleted, same, nil, "ignore"},
	{absent, onDelete, always, Unregistered, (*Pool).nothing, "—"},
	{inUse, onDelete, withRequests, same, (*Pool).markDeleted, "refuse new requests"},
	{pending, onDelete, always, Unregistered, (*Pool).cancelLoad, "cancel the load"},
	{idle, onDelete, always, Evicting, (*Pool).deleteIdle, "refuse new requests; evict"},
	{registered, onDelete, always, same, (*Pool).markDeleted, "refuse new requests"},
})

// event is one event of an adapter. Only the fields of its kind are set.
type event struct {
	kind    eventKind
	a       *adapter
	request string
	layout  *Layout // of an adapter that is registered
	pages   []uint32
	now     time.Time
	err     error
	from    Tier // of a load

	victims []*adapter // adapters to evict for it; set by lacksRoom
	grow    int        // pages to request for it; set by lacksRoom
	refusal *Refusal   // set by actions that refuse
}

// fire applies the first row that fits an event. It returns false if the event was ignored.
func (p *Pool) fire(e *event) bool {
	r := rows.Find(e.a.state, e.kind, func(holds condition) bool { return holds(p, e) })
	if r == nil || r.Do == nil {
		p.ignored++
		return false
	}
	r.Do(p, e)
	p.enter(e.a, r.To)
	return true
}

// enter changes the state of an adapter.
func (p *Pool) enter(a *adapter, to State) {
	if to == same {
		return
	}
	if a.state == Unregistered {
		p.adapters[a.id] = a
	}
	if a.state = to; to == Unregistered {
		delete(p.adapters, a.id)
	}
}

// nothing is the action of a row that only changes the state.
func (p *Pool) nothing(*event) {}
