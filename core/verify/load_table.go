package verify

import "troupe/core/table"

type (
	loadCondition = func(*Load, loadEvent) bool
	loadAction    = func(*Load, loadEvent)

	loadRow   = table.Row[State, Event, loadCondition, loadAction]
	loadGuard = table.Guard[loadCondition]
)

var (
	always   = loadGuard{}
	nothing  = loadGuard{"nothing recorded", func(_ *Load, e loadEvent) bool { return e.recorded == nil }}
	equal    = loadGuard{"as recorded", func(_ *Load, e loadEvent) bool { return e.equal() }}
	another  = loadGuard{"another source", func(_ *Load, e loadEvent) bool { return e.more }}
	rejected = loadGuard{"some rejected", func(l *Load, _ loadEvent) bool { return len(l.rejected) > 0 }}
)

func (e loadEvent) equal() bool {
	return e.recorded.Same(Record{Prompt: e.recorded.Prompt, Tokens: e.tokens})
}

// loadRows is the first transition table of doc.go. The first row that fits applies.
var loadRows = table.New("verify", []loadRow{
	{[]State{Loading}, evLoaded, always, Checking, (*Load).compute, "run a canary"},

	{[]State{Checking}, evComputed, nothing, Accepted, (*Load).record, "record the tokens; accept"},
	{[]State{Checking}, evComputed, equal, Accepted, (*Load).accept, "suspect what was rejected; accept"},
	{[]State{Checking}, evComputed, another, Loading, (*Load).tryNext, "drop the copy; next source"},
	{[]State{Checking}, evComputed, always, Failed, (*Load).rejectLast, "drop the copy; test the device; fail"},

	{[]State{Loading}, evExhausted, rejected, Failed, (*Load).fail, "test the device; fail"},
})

// on applies the first row that fits an event and returns its effects.
func (l *Load) on(e loadEvent) []Effect {
	r := loadRows.Find(l.state, e.kind, func(holds loadCondition) bool { return holds(l, e) })
	if r == nil {
		return []Effect{Ignored{l.state.String(), e.kind.String(), "unexpected"}}
	}
	r.Do(l, e)
	if r.To != table.Same {
		l.state = r.To
	}
	effects := l.effects
	l.effects = nil
	return effects
}
