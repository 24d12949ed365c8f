package device

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
	"troupe/core/quarantine"
	"troupe/core/residency"
)

var worldConfig = Config{Name: "gpu-0", Total: 20 * hbm.PageBytes, KVReserve: 0.3}

// world is a device with its jobs, and replicas that behave arbitrarily. It checks the invariants
// of doc.go by name.
type world struct {
	*rapid.T
	m        *Memory
	now      time.Time
	nextTick time.Time
	health   quarantine.State

	models map[string]Model          // models in memory
	copies map[uint64]residency.Copy // weights in memory
	sizes  map[string]Size           // by lease; sizes of the last load
	files  map[string]Files          // by lease; files of the last load
	jobs   []Effect                  // running jobs
	notes  []note                    // results that were not reported yet
	asks   map[string]AskShrink
	timers []timer
	wait   map[string]bool // requests without an answer
	next   int             // number of the next request

	readers map[string]uint64 // readers that have not ended: the copy of each
	revoked map[string]bool   // those that must end

	recalls map[string]AskPool
	given   map[string]int // by lease: pages that its pool has given back and that have memory

	confirmed map[string]uint64    // by lease: the last attempt that its replica confirmed
	askedAt   map[uint64]time.Time // by attempt: time of the first request to the replica
	waiting   map[string]time.Time // by lease: start of the load's wait for memory, while no replica loads
	refused   bool                 // the current event refuses a load, which enlarges the shares of the other leases
}

// note is the result of a job.
type note struct {
	job    Effect
	failed bool
	report func() []Effect
}

// timer is the timeout of an AskShrink.
type timer struct {
	at      time.Time
	lease   string
	attempt uint64
	pool    bool // of an AskPool
}

func newWorld(t *rapid.T) *world {
	w := &world{
		T: t, now: time.Unix(1e9, 0), models: make(map[string]Model), sizes: make(map[string]Size),
		readers: make(map[string]uint64), revoked: make(map[string]bool),
		copies: make(map[uint64]residency.Copy), files: make(map[string]Files),
		asks: make(map[string]AskShrink), recalls: make(map[string]AskPool),
		given: make(map[string]int), wait: make(map[string]bool), confirmed: make(map[string]uint64),
		askedAt: make(map[uint64]time.Time), waiting: make(map[string]time.Time),
	}
	w.nextTick = w.now.Add(time.Second)
	w.m = New(worldConfig, nil, nil, 1, w.now)
	return w
}

func (w *world) request() Request {
	w.next++
	r := Request{ID: fmt.Sprint(w.next), From: Actor{ID: "asker"}}
	w.wait[r.ID] = true
	return r
}

// Leases a and b are of one model. The first deployment of c has the same files, in another folder.
var modelOfLease = map[string]string{"a": "m", "b": "m", "c": "n"}

// contentOf returns the content of a model's files, and the pages of its weights.
func contentOf(model string, deploy uint64) (revision string, pages int) {
	switch {
	case deploy == 0:
		return "r0", 3
	case model == "m":
		return "r1", 6
	}
	return "r2", 1
}

// load requests a model.
func (w *world) load() {
	lease := w.lease()
	spec := Spec{
		Lease: lease, Model: modelOfLease[lease], Path: modelOfLease[lease],
		AdapterPages: rapid.IntRange(0, 1).Draw(w.T, "adapters"),
	}
	spec.Started = uint64(rapid.IntRange(0, 2).Draw(w.T, "incarnation"))
	spec.Deploy = uint64(rapid.IntRange(0, 5).Draw(w.T, "deploy") / 5)
	least := rapid.IntRange(1, 4).Draw(w.T, "least")
	revision, pages := contentOf(spec.Model, spec.Deploy)
	s := sizeOf(pages, rapid.IntRange(0, 1).Draw(w.T, "workspace"), least,
		least+rapid.IntRange(0, 12).Draw(w.T, "more")).withGraphs(rapid.IntRange(0, 2).Draw(w.T, "graphs"))
	files := Files{Layout: "f32"}
	if rapid.Bool().Draw(w.T, "known") {
		files.Revision = revision
	}
	if rapid.Bool().Draw(w.T, "checked") {
		spec.Revision = revision
	}
	r, was := w.request(), w.phase(lease)
	if rapid.IntRange(0, 9).Draw(w.T, "stranger") == 0 {
		r.From.ID = "stranger"
	}
	if was == Absent && w.health == quarantine.Healthy {
		w.sizes[lease], w.files[lease] = s, files
	}
	owner, since := r.From, uint64(0)
	if h := w.m.holders[lease]; h != nil {
		owner, since = h.owner, h.since
	}
	effects := w.do(func() []Effect { return w.m.LoadAsked(r, spec, w.health, w.now) })
	for _, e := range effects {
		switch e.(type) {
		case Inspect, LoadWeights, Open:
			if w.health != quarantine.Healthy {
				w.Fatal("excluded: a load starts on a quarantined device")
			}
		case AnswerLoad:
			if r.From != owner || spec.Started < since {
				w.Fatalf("owner: %+v of incarnation %d gets the handle of %+v", r, spec.Started, owner)
			}
			if w.health == quarantine.Lost {
				w.Fatal("excluded: a model on a lost device is adopted")
			}
		}
	}
}

func (w *world) unload() {
	lease, r := w.lease(), w.request()
	fate := residency.Fate(rapid.IntRange(0, int(residency.Park)).Draw(w.T, "fate"))
	w.do(func() []Effect { return w.m.UnloadAsked(r, lease, fate, w.now) })
}

func (w *world) adapters() {
	lease, r, pages := w.lease(), w.request(), rapid.IntRange(0, 6).Draw(w.T, "pages")
	w.do(func() []Effect { return w.m.AdaptersAsked(r, lease, pages, w.now) })
}

func (w *world) evict() {
	r, model := w.request(), rapid.SampledFrom([]string{"", "m", "n", "weights-1"}).Draw(w.T, "model")
	w.do(func() []Effect { return w.m.EvictAsked(r, model, rapid.Bool().Draw(w.T, "park"), w.now) })
}

// read begins to read weights for another device.
func (w *world) read() {
	reader := rapid.SampledFrom([]string{"p", "q"}).Draw(w.T, "reader")
	if _, reads := w.readers[reader]; reads {
		return
	}
	w.do(func() []Effect {
		revision := rapid.SampledFrom([]string{"r0", "r1", "r2"}).Draw(w.T, "revision")
		copy, effects := w.m.ReadAsked(reader, revision, "f32", w.now)
		if copy != 0 {
			w.readers[reader] = copy
		}
		return effects
	})
}

func (w *world) endRead() {
	if all := slices.Sorted(maps.Keys(w.readers)); len(all) > 0 {
		w.readEnded(rapid.SampledFrom(all).Draw(w.T, "reader"))
	}
}

func (w *world) readEnded(reader string) {
	copy := w.readers[reader]
	delete(w.readers, reader)
	delete(w.revoked, reader)
	w.do(func() []Effect { return w.m.ReadEnded(reader, copy, w.now) })
}

func (w *world) report() {
	lease := w.lease()
	r := Report{
		Blocks:    w.models[lease].Blocks - rapid.IntRange(0, 4).Draw(w.T, "wrong")/4,
		MinBlocks: rapid.IntRange(0, 4).Draw(w.T, "min"), WantedBlocks: rapid.IntRange(0, 3).Draw(w.T, "wanted"),
		Priority: rapid.IntRange(1, 3).Draw(w.T, "priority"), Standby: rapid.IntRange(0, 3).Draw(w.T, "standby") == 0,
	}
	w.do(func() []Effect { return w.m.Reported(replicaOf(lease), lease, r, w.now) })
}

// shrunk lets a replica confirm or refuse the last request to shrink, or an earlier one.
func (w *world) shrunk() {
	lease := w.lease()
	ask := w.asks[lease]
	attempt := ask.Attempt - uint64(rapid.IntRange(0, 4).Draw(w.T, "late")/4)
	if rapid.IntRange(0, 3).Draw(w.T, "kept") == 0 {
		w.do(func() []Effect { return w.m.ShrinkRefused(replicaOf(lease), lease, attempt, "busy", w.now) })
		return
	}
	w.confirmed[lease] = attempt
	w.do(func() []Effect { return w.m.Shrunk(replicaOf(lease), lease, attempt, w.now) })
}

// poolReports lets a pool report on its pages.
func (w *world) poolReports() {
	lease := w.lease()
	pages := w.models[lease].AdapterPages
	r := PoolReport{
		Pages:  pages - rapid.IntRange(0, 4).Draw(w.T, "wrong")/4,
		Wanted: rapid.IntRange(0, 3).Draw(w.T, "wanted"), Used: rapid.IntRange(0, pages).Draw(w.T, "used"),
	}
	w.do(func() []Effect { return w.m.PoolReported(poolOf(lease), lease, r, w.health, w.now) })
}

// rest lets the running jobs end and two seconds pass, so that a pool gets the pages that it wants.
func (w *world) rest() {
	for range 2 {
		for len(w.jobs) > 0 {
			w.work(0, false)
		}
		for len(w.notes) > 0 {
			n := w.notes[0]
			w.notes = w.notes[1:]
			w.do(n.report)
		}
		w.advance(2 * time.Second)
		w.poolReports()
	}
}

// poolShrinks lets a pool give back some of the pages that were asked for, and perhaps confirm the last
// request or an earlier one. A pool that was notified takes back what was not freed.
func (w *world) poolShrinks() {
	lease := w.lease()
	for _, h := range w.m.sorted() {
		if h.adapters.state == Recalled {
			lease = h.lease
		}
	}
	ask, asked := w.recalls[lease]
	pages := w.models[lease].AdapterPages
	if give := min(pages-ask.Pages, rapid.IntRange(0, 6).Draw(w.T, "give")); asked && give > 0 {
		w.given[lease] = give
	}
	attempt := ask.Attempt - uint64(rapid.IntRange(0, 4).Draw(w.T, "late")/4)
	w.do(func() []Effect { return w.m.PoolShrunk(poolOf(lease), lease, attempt, w.now) })
}

// advance advances the time, with all timers and ticks.
func (w *world) advance(d time.Duration) {
	for end := w.now.Add(d); ; {
		i := -1
		at := w.nextTick
		for j, t := range w.timers {
			if !t.at.After(at) && (i < 0 || t.at.Before(w.timers[i].at)) {
				i, at = j, t.at
			}
		}
		if at.After(end) {
			w.now = end
			return
		}
		w.now = at
		if i < 0 {
			w.nextTick = w.now.Add(time.Second)
			w.do(func() []Effect { return w.m.Tick(w.health, w.now) })
			continue
		}
		t := w.timers[i]
		w.timers = slices.Delete(w.timers, i, i+1)
		if t.pool {
			w.do(func() []Effect { return w.m.PoolTimer(t.lease, t.attempt, w.now) })
			continue
		}
		w.do(func() []Effect { return w.m.Timer(t.lease, t.attempt, w.now) })
	}
}

// restart crashes the actor. Resizes and allocations end before the next incarnation starts; loads
// are cancelled.
func (w *world) restart() {
	for len(w.jobs) > 0 {
		switch w.jobs[0].(type) {
		case Inspect, LoadWeights:
			w.jobs = w.jobs[1:]
		default:
			w.work(0, rapid.Bool().Draw(w.T, "fails"))
		}
	}
	w.jobs, w.notes, w.timers = nil, nil, nil
	clear(w.wait)
	clear(w.waiting)
	clear(w.revoked)
	var copies []residency.Copy
	for _, n := range slices.Sorted(maps.Keys(w.copies)) {
		c := w.copies[n]
		for _, r := range slices.Sorted(maps.Keys(w.readers)) {
			if w.readers[r] == n {
				c.Readers = append(c.Readers, r)
			}
		}
		copies = append(copies, c)
	}
	w.m = New(worldConfig, slices.Collect(maps.Values(w.models)), copies, w.m.Attempt(), w.now)
	for lease, model := range w.models {
		if h := w.m.holders[lease]; w.phase(lease) != Resident || h.model.Blocks != model.Blocks ||
			h.model.AdapterPages != model.AdapterPages {
			w.Fatalf("recovered: %s is %s", lease, w.phase(lease))
		}
	}
}

// do carries out one event and checks its effects.
func (w *world) do(event func() []Effect) []Effect {
	before, waiting := w.picture(), w.inPhase(Waiting)
	effects := event()
	w.refused = slices.ContainsFunc(effects, func(e Effect) bool { _, ok := e.(ModelRefused); return ok })
	for _, e := range effects {
		switch e.(type) {
		case Ignored, WeightsIgnored:
			if len(effects) > 1 || w.picture() != before {
				w.Fatalf("ignored: %v, and something changed", effects)
			}
		}
		w.carryOut(e)
	}
	w.check()
	for _, lease := range waiting {
		h := w.m.holders[lease]
		if granted := h != nil && (h.phase == Loading || h.phase == Opening); granted && !w.refused &&
			h.blocks < w.m.shares()[lease].guaranteed {
			w.Fatalf("guaranteed: %s is loaded with %d blocks", lease, h.blocks)
		}
	}
	return effects
}

// inPhase returns the leases in a phase.
func (w *world) inPhase(p Phase) (leases []string) {
	for _, h := range w.m.sorted() {
		if h.phase == p {
			leases = append(leases, h.lease)
		}
	}
	return leases
}

// picture formats the state of the machine.
func (w *world) picture() (text string) {
	for _, h := range w.m.sorted() {
		text += fmt.Sprintf("%+v\n", *h)
	}
	return text + fmt.Sprintf("%+v %d %d", w.m.weights.Copies(), w.m.freePages(), w.m.attempt)
}

func (w *world) lease() string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(w.T, "lease")
}

func (w *world) phase(lease string) Phase {
	if h := w.m.holders[lease]; h != nil {
		return h.phase
	}
	return Absent
}
