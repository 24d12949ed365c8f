package lora

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// faultWorld is a device and a caller that carries out a pool's actions in random order.
type faultWorld struct {
	t    *rapid.T
	r    draws
	pool *Pool
	now  time.Time

	content  map[uint32]string // by page, the adapter copied to it
	loads    []Load            // in flight
	evicts   []string          // in flight
	inspects []string          // in flight
	requests map[string]State  // Loading: waiting; Active: got Ready
	adapter  map[string]string // by request
	names    int

	pages  map[uint32]bool // that the pool has
	given  []uint32        // pages that the pool gave back and that have memory
	wanted int             // pages that the pool requested; 0: none
	target int             // of the shrink in progress; 0: none
	shrunk bool            // the pool has confirmed it
}

// draws is a source of random numbers.
type draws struct{ *rapid.T }

func (d draws) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "n") }

const (
	worldPages    = 10
	mostPages     = 16
	leastPages    = 5 // of the largest adapter
	worldAdapters = 6
)

// layoutOf returns the layout of adapter i, with 1 to 5 pages.
func layoutOf(i int) *Layout {
	l := &Layout{}
	for n := range 1 + i%5 {
		l.Add(Matrix{Layer: n}, hbm.PageBytes-int64(i))
	}
	return l
}

func newWorld(t *rapid.T) *faultWorld {
	w := &faultWorld{
		t: t, r: draws{t}, now: time.Unix(0, 0), content: map[uint32]string{},
		requests: map[string]State{}, adapter: map[string]string{},
	}
	w.newPool()
	return w
}

func (w *faultWorld) newPool() {
	if w.pages == nil {
		w.pages = make(map[uint32]bool)
		for i := range worldPages {
			w.pages[uint32(100-i*3)] = true
		}
	}
	w.pool = NewPool(Config{Pages: slices.Sorted(maps.Keys(w.pages)), Grow: true})
	for i := range worldAdapters {
		w.pool.Register(fmt.Sprint("a", i), layoutOf(i))
	}
}

func (w *faultWorld) anyAdapter() string { return fmt.Sprint("a", w.r.IntN(worldAdapters)) }

func pick[T any](r draws, list *[]T) (T, bool) {
	var none T
	if len(*list) == 0 {
		return none, false
	}
	i := r.IntN(len(*list))
	t := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return t, true
}

// step performs a random event of normal operation.
func (w *faultWorld) step() {
	switch w.r.IntN(12) {
	case 0, 1, 2:
		w.names++
		w.pin(fmt.Sprint("r", w.names), w.anyAdapter())
	case 3:
		if request, ok := w.anyRequest(); ok {
			w.unpin(request)
		}
	case 4, 5:
		if l, ok := pick(w.r, &w.loads); ok {
			w.loaded(l, nil)
		}
	case 6:
		if id, ok := pick(w.r, &w.evicts); ok {
			w.evicted(id)
		}
	case 7:
		if w.r.IntN(2) == 0 {
			w.want()
		} else {
			w.pool.Requested(w.anyAdapter(), w.now)
		}
		w.pool.Prefetch(2, w.now)
	case 8:
		w.now = w.now.Add(time.Duration(w.r.IntN(7)) * time.Second)
		if id := w.anyAdapter(); w.r.IntN(2) == 0 { // succeeds only for deleted adapters
			w.pool.Register(id, layoutOf(w.r.IntN(worldAdapters)))
		} else {
			w.pool.Inspect(id)
		}
	case 9:
		if id, ok := pick(w.r, &w.inspects); ok {
			w.inspected(id)
		}
	case 10:
		w.grow(w.r.IntN(w.wanted + 1))
	case 11:
		w.shrink()
	}
}

// want makes the pool prefetch adapters for the planner. It evicts none that was requested lately.
func (w *faultWorld) want() {
	var recent []*adapter
	for _, a := range w.pool.adapters {
		if a.resident() && w.pool.recent(a, w.now) {
			recent = append(recent, a)
		}
	}
	var all []Wanted
	for range w.r.IntN(3) {
		all = append(all, Wanted{w.anyAdapter(), float64(w.r.IntN(9))})
	}
	w.pool.Want(all, w.now)
	w.pool.Tick(w.now)
	for _, a := range recent {
		if !a.resident() {
			w.t.Fatalf("ahead: %s was requested lately, and is evicted for the planner", a.id)
		}
	}
}

// grow answers the request for more pages with some of them.
func (w *faultWorld) grow(n int) {
	if w.wanted == 0 || w.target > 0 {
		w.pool.Retry()
		return
	}
	w.wanted = 0
	for page := uint32(0); n > 0 && len(w.pages) < mostPages; page++ {
		if !w.pages[page] && !slices.Contains(w.given, page) {
			w.pages[page] = true
			n--
		}
	}
	if w.r.IntN(8) == 0 {
		w.pool.NotGranted() // the answer is late
	}
	w.pool.Granted(slices.Sorted(maps.Keys(w.pages)))
}

// shrink begins a shrink, asks again, or ends it: some of the pages that were given back are freed, and
// the others are the pool's again.
func (w *faultWorld) shrink() {
	switch {
	case w.target == 0:
		w.target, w.shrunk = leastPages+w.r.IntN(worldPages-leastPages), false
		w.pool.Shrink(w.target)
	case w.r.IntN(2) == 0:
		w.shrunk = false
		w.pool.Shrink(w.target)
	default:
		w.endShrink(w.r.IntN(len(w.given) + 1))
	}
}

func (w *faultWorld) endShrink(freed int) {
	for _, page := range w.given[freed:] {
		w.pages[page] = true
	}
	w.target, w.given, w.wanted = 0, nil, 0
	w.pool.Granted(slices.Sorted(maps.Keys(w.pages)))
}

// fault injects a random fault.
func (w *faultWorld) fault() {
	switch w.r.IntN(6) {
	case 0: // damaged file, out of memory during a load, or a crash of the loader
		if l, ok := pick(w.r, &w.loads); ok {
			w.loaded(l, errors.New("damaged"))
		}
	case 1:
		w.pool.Delete(w.anyAdapter())
	case 2: // unexpected reports
		w.stray(w.anyAdapter())
		w.pool.Unpin("unknown")
	case 3: // repeated request, or one for another adapter
		if request, ok := w.anyRequest(); ok {
			id := w.adapter[request]
			if state, refusal := w.pool.Pin(request, id); refusal != nil || state != w.requests[request] {
				w.t.Fatalf("kept: %s holds %s in state %v, but Pin returned %v, %v", request, id, w.requests[request],
					state, refusal)
			}
			if _, refusal := w.pool.Pin(request, "a"+id); refusal == nil {
				w.t.Fatalf("%s holds two adapters", request)
			}
		}
	case 4:
		if w.r.IntN(8) == 0 {
			w.crash()
		}
	case 5: // all requests end
		if w.r.IntN(8) == 0 {
			for _, request := range slices.Sorted(maps.Keys(w.requests)) {
				w.unpin(request)
			}
		}
	}
}

func (w *faultWorld) anyRequest() (string, bool) {
	all := slices.Sorted(maps.Keys(w.requests))
	return pick(w.r, &all)
}

// stray reports the end of a load and of an eviction that are not in flight.
func (w *faultWorld) stray(id string) {
	before, ignored := fmt.Sprint(w.states()), w.pool.Ignored()
	if !slices.Contains(w.evicts, id) {
		w.pool.Evicted(id)
	}
	if !slices.ContainsFunc(w.loads, func(l Load) bool { return l.Adapter == id }) {
		w.pool.Loaded(id, DRAM, nil)
		w.pool.Loaded(id, Disk, errors.New("late"))
	}
	if !slices.Contains(w.inspects, id) {
		w.pool.Inspected(id, layoutOf(0))
		w.pool.InspectFailed(id, errors.New("late"))
	}
	if after := fmt.Sprint(w.states()); after != before || w.pool.Ignored() == ignored {
		w.t.Fatalf("ignored: %s became %s; %d ignored", before, after, w.pool.Ignored()-ignored)
	}
}

func (w *faultWorld) states() (all []string) {
	for _, id := range slices.Sorted(maps.Keys(w.pool.adapters)) {
		a := w.pool.adapters[id]
		all = append(all, fmt.Sprint(id, a.state, a.pages, len(a.users)))
	}
	return append(all, fmt.Sprint(len(w.pool.actions), len(w.pool.pending), w.pool.pages.Available()))
}

// crash replaces the pool. The new one recovers the adapters that were on the device completely.
func (w *faultWorld) crash() {
	tables := map[string][]uint32{}
	for i := range worldAdapters {
		id := fmt.Sprint("a", i)
		if table, ok := w.pool.Table(id); ok && table.Layout.Pages() == layoutOf(i).Pages() {
			tables[id] = table.Pages
		}
	}
	clear(w.requests)
	clear(w.adapter)
	w.loads, w.evicts, w.inspects = nil, nil, nil
	w.wanted, w.target = 0, 0 // pages that were given back stay so until the end of the next shrink
	w.newPool()
	for id, pages := range tables {
		if !w.pool.Recover(id, pages) {
			w.t.Fatalf("%s in pages %v was not recovered", id, pages)
		}
		if w.pool.Recover(id, pages) {
			w.t.Fatalf("%s was recovered twice", id)
		}
	}
}

func (w *faultWorld) pin(request, id string) {
	state, refusal := w.pool.Pin(request, id)
	if refusal != nil {
		if refusal.Detail == "" || w.pool.requests[request] != nil {
			w.t.Fatalf("refused: %+v, but holds %v", refusal, w.pool.requests[request])
		}
		return
	}
	w.requests[request], w.adapter[request] = state, id
}

func (w *faultWorld) unpin(request string) {
	delete(w.requests, request)
	delete(w.adapter, request)
	w.pool.Unpin(request)
}

func (w *faultWorld) loaded(l Load, err error) {
	for i, page := range l.Table.Pages {
		if err == nil || i%2 == 0 { // a failed load has copied a part
			w.content[page] = l.Adapter
		}
	}
	w.pool.Loaded(l.Adapter, Disk, err)
}

// inspected ends an inspection. One adapter in eight is too large, and one damaged.
func (w *faultWorld) inspected(id string) {
	large := &Layout{}
	large.Add(Matrix{}, (mostPages+1)*hbm.PageBytes)
	var refusal *Refusal
	switch w.r.IntN(8) {
	case 0:
		refusal = w.pool.Inspected(id, large)
	case 1:
		refusal = w.pool.InspectFailed(id, errors.New("damaged"))
	default:
		if why := w.pool.Inspected(id, layoutOf(w.r.IntN(worldAdapters))); why != nil {
			w.t.Fatalf("refused: %s, %+v", id, why)
		}
		return
	}
	if refusal == nil || w.pool.Registered(id) {
		w.t.Fatalf("refused: %s is registered, %+v", id, refusal)
	}
}

// evicted completes an eviction: the pages may hold anything from now on.
func (w *faultWorld) evicted(id string) {
	for _, page := range w.pool.adapters[id].pages {
		w.content[page] = ""
	}
	w.pool.Evicted(id)
}

// takeBack takes pages that the pool gives back.
func (w *faultWorld) takeBack(pages []uint32) {
	for _, page := range pages {
		if !w.pages[page] || w.target == 0 {
			w.t.Fatalf("given back: page %d, which was not asked for", page)
		}
		for _, l := range w.loads {
			if slices.Contains(l.Table.Pages, page) {
				w.t.Fatalf("given back: page %d, to which %s is copied", page, l.Adapter)
			}
		}
		w.content[page] = ""
		delete(w.pages, page)
	}
	w.given = append(w.given, pages...)
}

// carryOut accepts the pool's actions.
func (w *faultWorld) carryOut() {
	for _, action := range w.pool.Actions() {
		switch action := action.(type) {
		case Load:
			for _, page := range action.Table.Pages {
				w.content[page] = "half " + action.Adapter
			}
			w.loads = append(w.loads, action)
		case Inspect:
			w.inspects = append(w.inspects, action.Adapter)
		case Evict:
			w.evicts = append(w.evicts, action.Adapter)
		case Grow:
			w.wanted = action.Pages
		case GiveBack:
			w.takeBack(action.Pages)
		case Shrunk:
			if w.shrunk || len(w.pages) > w.target {
				w.t.Fatalf("shrunk: confirmed twice, or with %d pages of %d", len(w.pages), w.target)
			}
			w.shrunk = true
		case Ready:
			if w.requests[action.Request] == Loading {
				w.requests[action.Request] = Active
			} else if w.requests[action.Request] == Active {
				w.t.Fatalf("answered: %s twice", action.Request)
			}
		case Lost:
			if action.Refusal.Detail == "" || w.requests[action.Request] != Loading {
				w.t.Fatalf("answered: %s was lost in state %v, %+v", action.Request, w.requests[action.Request], action)
			}
			delete(w.requests, action.Request)
			delete(w.adapter, action.Request)
		}
	}
}
