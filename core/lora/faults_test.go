package lora

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"troupe/core/hbm"
)

// world is a device, and whoever carries the actions of a pool out, in any order.
type world struct {
	t    *testing.T
	r    *rand.Rand
	pool *Pool
	now  time.Time

	content  map[uint32]string // by page, what was copied there
	loads    []Load            // under way
	evicts   []string          // likewise
	requests map[string]State  // Loading: told to wait; Active: told to go on
	adapter  map[string]string // by request
	names    int
}

const (
	worldPages    = 10
	worldAdapters = 6
)

// layoutOf gives adapter i its size: 1 to 5 pages.
func layoutOf(i int) *Layout {
	l := &Layout{}
	for n := range 1 + i%5 {
		l.Add(Matrix{Layer: n}, hbm.PageBytes-int64(i))
	}
	return l
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(0, 0), content: map[uint32]string{},
		requests: map[string]State{}, adapter: map[string]string{},
	}
	w.newPool()
	return w
}

func (w *world) newPool() {
	cfg := Config{HostBytes: int64(w.r.IntN(8)) * hbm.PageBytes}
	for i := range worldPages {
		cfg.Pages = append(cfg.Pages, uint32(100-i*3))
	}
	w.pool = NewPool(cfg)
	for i := range worldAdapters {
		w.pool.Register(fmt.Sprint("a", i), layoutOf(i))
	}
}

func (w *world) any() string { return fmt.Sprint("a", w.r.IntN(worldAdapters)) }

func pick[T any](r *rand.Rand, list *[]T) (T, bool) {
	var none T
	if len(*list) == 0 {
		return none, false
	}
	i := r.IntN(len(*list))
	t := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return t, true
}

// step is something that happens when all goes well.
func (w *world) step() {
	switch w.r.IntN(9) {
	case 0, 1, 2:
		w.names++
		w.pin(fmt.Sprint("r", w.names), w.any())
	case 3:
		for request := range w.requests {
			w.unpin(request)
			break
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
		w.pool.Requested(w.any(), w.now)
		w.pool.Prefetch(2, w.now)
	case 8:
		w.now = w.now.Add(time.Duration(w.r.IntN(7)) * time.Second)
		w.pool.Register(w.any(), layoutOf(w.r.IntN(worldAdapters))) // only what was deleted
	}
}

// fault is something that goes wrong.
func (w *world) fault() {
	switch w.r.IntN(6) {
	case 0: // a damaged file, no memory in the middle of a load, a crash of the slot
		if l, ok := pick(w.r, &w.loads); ok {
			w.loaded(l, errors.New("damaged"))
		}
	case 1:
		w.pool.Delete(w.any())
	case 2: // reports that nothing asked for
		if id := w.any(); !slices.Contains(w.evicts, id) {
			w.pool.Evicted(id)
		}
		w.pool.Unpin("nobody")
	case 3: // the same request again, or for something else
		for request, id := range w.adapter {
			if state, refusal := w.pool.Pin(request, id); refusal != nil || state != w.requests[request] {
				w.t.Fatalf("kept: %s holds %s, %v, and is told %v, %v", request, id, w.requests[request], state, refusal)
			}
			if _, refusal := w.pool.Pin(request, "a"+id); refusal == nil {
				w.t.Fatalf("%s holds two adapters", request)
			}
			break
		}
	case 4:
		if w.r.IntN(8) == 0 {
			w.crash()
		}
	case 5: // everybody leaves
		if w.r.IntN(8) == 0 {
			for request := range w.requests {
				w.unpin(request)
			}
		}
	}
}

// crash replaces the pool by a new one. It finds on the device what was copied whole and was not about to leave.
func (w *world) crash() {
	tables := map[string][]uint32{}
	for i := range worldAdapters {
		id := fmt.Sprint("a", i)
		if table, ok := w.pool.Table(id); ok && table.Layout.Pages() == layoutOf(i).Pages() {
			tables[id] = table.Pages
		}
	}
	clear(w.requests)
	clear(w.adapter)
	w.loads, w.evicts = nil, nil
	w.newPool()
	for id, pages := range tables {
		if !w.pool.Restore(id, pages) {
			w.t.Fatalf("%s is in %v and was not restored", id, pages)
		}
		if w.pool.Restore(id, pages) {
			w.t.Fatalf("%s was restored twice", id)
		}
	}
}

func (w *world) pin(request, id string) {
	state, refusal := w.pool.Pin(request, id)
	if refusal != nil {
		if refusal.Detail == "" || w.pool.requests[request] != nil {
			w.t.Fatalf("refused with %+v, and holds %v", refusal, w.pool.requests[request])
		}
		return
	}
	w.requests[request], w.adapter[request] = state, id
}

func (w *world) unpin(request string) {
	delete(w.requests, request)
	delete(w.adapter, request)
	w.pool.Unpin(request)
}

func (w *world) loaded(l Load, err error) {
	for i, page := range l.Table.Pages {
		if err == nil || i%2 == 0 { // one that fails has copied a part
			w.content[page] = l.Adapter
		}
	}
	w.pool.Loaded(l.Adapter, err)
}

// evicted lets go of an adapter: from now on its pages may hold anything.
func (w *world) evicted(id string) {
	for _, page := range w.pool.adapters[id].pages {
		w.content[page] = ""
	}
	w.pool.Evicted(id)
}

// carry takes the actions in.
func (w *world) carry() {
	for _, action := range w.pool.Actions() {
		switch action := action.(type) {
		case Load:
			for _, page := range action.Table.Pages {
				w.content[page] = "half " + action.Adapter
			}
			w.loads = append(w.loads, action)
		case Evict:
			w.evicts = append(w.evicts, action.Adapter)
		case Ready:
			if w.requests[action.Request] == Loading {
				w.requests[action.Request] = Active
			} else if w.requests[action.Request] == Active {
				w.t.Fatalf("answered: %s twice", action.Request)
			}
		case Lost:
			delete(w.requests, action.Request)
			delete(w.adapter, action.Request)
		}
	}
}

// check looks at the invariants that doc.go names.
func (w *world) check() {
	owner := map[uint32]string{}
	held, owed := 0, 0
	for id, a := range w.pool.adapters {
		for _, page := range a.pages {
			if other, twice := owner[page]; twice {
				w.t.Fatalf("exclusive: page %d is of %s and %s", page, id, other)
			}
			owner[page] = id
		}
		held += len(a.pages)
		if a.state == Loading && a.pages == nil {
			owed += a.layout.Pages()
		}
		if (a.state == Active) != (a.resident() && len(a.users) > 0) || a.state == Absent && len(a.users) > 0 || a.state == Evicting && len(a.users) > 0 {
			w.t.Fatalf("kept: %s is %s with %d requests", id, a.state, len(a.users))
		}
	}
	if held+w.pool.pages.Left() != worldPages || owed != w.pool.owed || w.pool.pages.Left()+w.pool.evicting < owed {
		w.t.Fatalf("conservation: %d pages held, %d free, %d vacated, %d owed (%d)", held, w.pool.pages.Left(), w.pool.evicting, owed, w.pool.owed)
	}
	if len(w.pool.requests) != len(w.requests) || w.pool.host > w.pool.cfg.HostBytes {
		w.t.Fatalf("%d requests hold adapters, not %d; %d bytes in host memory", len(w.pool.requests), len(w.requests), w.pool.host)
	}
	for request, state := range w.requests {
		if state != Active {
			continue
		}
		table, ok := w.pool.Table(w.adapter[request])
		if !ok {
			w.t.Fatalf("in place: %s has no %s", request, w.adapter[request])
		}
		for _, page := range table.Pages {
			if w.content[page] != w.adapter[request] {
				w.t.Fatalf("in place: %s needs %s, and page %d has %q", request, w.adapter[request], page, w.content[page])
			}
		}
	}
}

// end lets all that is under way come to an end, and everybody leave.
func (w *world) end() {
	for len(w.loads)+len(w.evicts) > 0 {
		if id, ok := pick(w.r, &w.evicts); ok {
			w.evicted(id)
		} else if l, ok := pick(w.r, &w.loads); ok {
			w.loaded(l, nil)
		}
		w.carry()
		w.check()
	}
	for request, state := range w.requests {
		if state != Active {
			w.t.Fatalf("answered: %s waits, and nothing is under way", request)
		}
		w.unpin(request)
	}
	for i := range worldAdapters {
		w.pool.Delete(fmt.Sprint("a", i))
	}
	w.carry()
	for len(w.evicts) > 0 {
		id, _ := pick(w.r, &w.evicts)
		w.evicted(id)
	}
	if p := w.pool; p.pages.Left() != worldPages || len(p.adapters)+len(p.requests)+len(p.pending) != 0 || p.host != 0 {
		w.t.Fatalf("nothing left: %d of %d pages, %d adapters, %d requests, %d bytes", p.pages.Left(), worldPages, len(p.adapters), len(p.requests), p.host)
	}
}

// TestFaults: whatever goes wrong, and when, the invariants hold, and at the end no page and no reference is left over.
func TestFaults(t *testing.T) {
	var seed uint64
	defer func() {
		if t.Failed() {
			t.Log("seed", seed)
		}
	}()
	for ; seed < 10_000; seed++ {
		w := newWorld(t, seed)
		for range 25 {
			w.step()
			w.carry()
			w.check()
			w.fault()
			w.carry()
			w.check()
		}
		w.end()
	}
}
