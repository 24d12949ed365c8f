package lora

import (
	"fmt"
	"math"
	"time"
)

// Reason is the reason for a refusal.
type Reason int

// Reasons.
const (
	Unknown   Reason = iota + 1 // no such adapter
	Deleting                    // the adapter is being deleted
	NoRoom                      // all pages are in use or about to be; the caller may retry
	TooLarge                    // the adapter has more pages than the pool
	Failed                      // the adapter could not be loaded
	Duplicate                   // an adapter or request of this name exists
)

// Refusal is the reason why the pool rejected a call.
type Refusal struct {
	Reason Reason
	Detail string
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// Config configures a pool.
type Config struct {
	Pages []uint32 // of the device, leased for adapters
	// Window is how long a request protects its adapter from eviction by a prefetch; 5 s by
	// default.
	Window time.Duration
	// HalfLife is the time after which a request counts half in an adapter's popularity; 60 s by
	// default. The shorter it is, the closer eviction comes to LRU.
	HalfLife time.Duration
	Order    Order // nil: least popular first
	// Grow makes the pool request more pages before it evicts an adapter or refuses a pin.
	Grow bool
}

// Pool decides which adapters are on the device. It is not safe for concurrent use.
type Pool struct {
	cfg           Config
	pages         *Pages
	adapters      map[string]*adapter
	requests      map[string]*adapter // requests that hold an adapter
	pending       []*adapter          // adapters to load that wait for pages, in order
	evictingPages int                 // pages being evicted
	pendingPages  int                 // pages that pending adapters wait for
	resizing
	actions []Action
	stats   Stats
	ignored uint64 // events that the table does not allow

	requested bool // an adapter was requested since the last Tick
}

// adapter is a registered adapter.
type adapter struct {
	id      string
	layout  *Layout // nil in Inspecting
	state   State
	pages   []uint32        // in Loading, Idle, Active and Evicting
	users   map[string]bool // requests that pin it
	deleted bool            // the adapter is to be unregistered after its last request
	wanted  bool            // the planner wants it on the device, and its load has not started
	popularity
}

func (a *adapter) resident() bool { return a.state == Idle || a.state == Active }

// Stats count the pool's operations.
type Stats struct {
	// Loads counts the loads that were started, and Prefetches those that no request had asked for.
	Loads, Prefetches   uint64
	Reads, HostLoads    uint64 // loads from disk and from host memory that have ended
	Hits                uint64 // requests that found their adapter on the device
	Evictions, Failures uint64
}

// NewPool returns a pool without adapters.
func NewPool(cfg Config) *Pool {
	if cfg.Window == 0 {
		cfg.Window = 5 * time.Second
	}
	if cfg.HalfLife == 0 {
		cfg.HalfLife = HalfLife
	}
	return &Pool{
		cfg: cfg, pages: NewPages(cfg.Pages), adapters: make(map[string]*adapter), requests: make(map[string]*adapter),
	}
}

// Register adds an adapter, which is on disk.
func (p *Pool) Register(id string, layout *Layout) *Refusal {
	return p.handle(&event{kind: onRegister, a: p.find(id), layout: layout})
}

// Inspect makes an adapter known: if it is not, an Inspect action follows, and requests may pin it
// meanwhile.
func (p *Pool) Inspect(id string) { p.handle(&event{kind: onInspect, a: p.find(id)}) }

// Inspected registers an adapter that was inspected, or returns the reason why it cannot be. The
// requests that pinned it wait for pages, or are lost.
func (p *Pool) Inspected(id string, layout *Layout) *Refusal {
	a := p.find(id)
	p.requested = p.requested || a.wanted
	return p.handle(&event{kind: onInspected, a: a, layout: layout})
}

// InspectFailed ends an inspection and refuses the requests that wait for it. It returns their
// refusal.
func (p *Pool) InspectFailed(id string, err error) *Refusal {
	return p.handle(&event{kind: onInspectFailed, a: p.find(id), err: err})
}

// Recover marks a registered adapter as resident on the device, in pages that an earlier
// incarnation filled. It reports false and does nothing if that is impossible.
func (p *Pool) Recover(id string, pages []uint32) bool {
	return p.fire(&event{kind: onRecover, a: p.find(id), pages: pages})
}

// Delete removes an adapter. New requests are refused at once; those that hold it finish first. It
// reports whether the adapter existed.
func (p *Pool) Delete(id string) bool {
	before := p.ignored
	p.handle(&event{kind: onDelete, a: p.find(id)})
	return p.ignored == before
}

// Pin holds an adapter for a request until Unpin and loads it if necessary. It returns Active if
// the adapter is on the device. It returns Loading if a Ready or Lost action will follow. A refused
// request holds nothing.
func (p *Pool) Pin(request, id string) (State, *Refusal) {
	if a, ok := p.requests[request]; ok {
		if a.id != id {
			return Absent, refuse(Duplicate, "request %s already holds adapter %s", request, a.id)
		}
		return a.state.seen(), nil
	}
	a := p.find(id)
	if refusal := p.handle(&event{kind: onPin, a: a, request: request}); refusal != nil {
		return Absent, refusal
	}
	return a.state.seen(), nil
}

// Unpin releases a request's pin. It ignores a request without one.
func (p *Pool) Unpin(request string) {
	a, ok := p.requests[request]
	if !ok {
		return
	}
	delete(p.requests, request)
	delete(a.users, request)
	p.handle(&event{kind: onUnpin, a: a, request: request})
}

// Loaded ends a load from a tier, with or without an error. It reports the outcome to the waiting
// requests.
func (p *Pool) Loaded(id string, from Tier, err error) {
	e := &event{kind: onLoaded, a: p.find(id), from: from, err: err}
	if err != nil {
		e.kind = onLoadFailed
	}
	p.handle(e)
}

// Evicted reports that nothing reads an adapter's pages any longer.
func (p *Pool) Evicted(id string) { p.handle(&event{kind: onEvicted, a: p.find(id)}) }

// handle applies an event. It then evicts the victims of the event.
func (p *Pool) handle(e *event) *Refusal {
	p.fire(e)
	for _, v := range e.victims {
		p.fire(&event{kind: onChosen, a: v})
	}
	p.settle()
	return e.refusal
}

// settle gives back pages, and starts the loads whose pages are free. If there are too few pages for all
// loads in line, it evicts idle adapters, and cancels the loads for which that does not suffice.
func (p *Pool) settle() {
	p.giveBack()
	for len(p.pending) > 0 && p.shortage() > p.idlePages() {
		p.fire(&event{kind: onNoPages, a: p.pending[len(p.pending)-1]})
	}
	for _, v := range p.idleUpTo(p.shortage()) {
		p.fire(&event{kind: onChosen, a: v})
	}
	for p.firstFits() && p.fire(&event{kind: onPages, a: p.pending[0]}) {
	}
}

// firstFits reports whether there are pages for the first load in line.
func (p *Pool) firstFits() bool {
	return len(p.pending) > 0 && p.pages.Available() >= p.pending[0].layout.Pages()
}

// find returns an adapter, or an unregistered one.
func (p *Pool) find(id string) *adapter {
	if a, ok := p.adapters[id]; ok {
		return a
	}
	return &adapter{
		id: id, state: Unregistered, users: make(map[string]bool), popularity: popularity{log: math.Inf(-1)},
	}
}

// State returns the state of an adapter, and whether it is on the device or on disk.
func (p *Pool) State(id string) (State, Tier) {
	a, ok := p.adapters[id]
	switch {
	case !ok:
		return Absent, Disk
	case a.resident():
		return a.state, GPU
	}
	return a.state.seen(), Disk
}

// Location returns the state of an adapter, and the nearest tier that has it. inHost reports whether host memory
// has a copy. An adapter that is not registered any longer is on disk alone, even if its copy is still there.
func (p *Pool) Location(id string, inHost bool) (l Location) {
	l.State, l.Tier = p.State(id)
	if l.Tier == Disk && inHost && p.Registered(id) {
		l.Tier = DRAM
	}
	return l
}

// Registered reports whether the adapter exists, even if it is being deleted.
func (p *Pool) Registered(id string) bool { return p.adapters[id] != nil }

// Table returns the location of an adapter. It reports false if the adapter is not on the device.
func (p *Pool) Table(id string) (Table, bool) {
	a, ok := p.adapters[id]
	if !ok || !a.resident() {
		return Table{}, false
	}
	return Table{a.layout, a.pages}, true
}

// Users returns the number of requests that hold an adapter.
func (p *Pool) Users(id string) int {
	if a, ok := p.adapters[id]; ok {
		return len(a.users)
	}
	return 0
}

// Stats returns the counters so far.
func (p *Pool) Stats() Stats { return p.stats }

// Ignored returns the number of events that the table does not allow, such as a late Loaded.
func (p *Pool) Ignored() uint64 { return p.ignored }

// FreePages returns the number of free pages.
func (p *Pool) FreePages() int { return p.pages.Available() }
