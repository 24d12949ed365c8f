package lora

import (
	"fmt"
	"math"
	"time"
)

// State of an adapter on the device.
type State int

// States.
const (
	Absent   State = iota
	Loading        // its pages are on their way, or it waits for pages that are being vacated
	Idle           // there, and no request uses it
	Active         // there, and requests use it
	Evicting       // about to leave its pages
)

func (s State) String() string {
	return [...]string{"absent", "loading", "idle", "active", "evicting"}[s]
}

// Tier is where an adapter is read from: the nearest place that has it.
type Tier int

// Tiers.
const (
	Disk Tier = iota
	DRAM
	GPU
)

func (t Tier) String() string { return [...]string{"disk", "dram", "gpu"}[t] }

// Reason says why the pool refused.
type Reason int

// Reasons.
const (
	Unknown   Reason = iota + 1 // no such adapter
	Leaving                     // it is being deleted
	NoRoom                      // every page is in use, or is about to be; try again
	TooLarge                    // it has more pages than the pool
	Failed                      // it could not be loaded
	Duplicate                   // an adapter, or a request, of this name is here already
)

// Refusal is why the pool did not do what it was asked to.
type Refusal struct {
	Reason Reason
	Detail string
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// Config of a pool.
type Config struct {
	Pages     []uint32 // of the device, leased for adapters
	HostBytes int64    // of host memory, for adapters that were read; 0: none are kept
	// Window is how long a request protects its adapter from being evicted for a prefetch; 5 s by default.
	Window time.Duration
	// HalfLife is how long it takes until a request counts half in an adapter's popularity; 60 s by default. The shorter, the
	// more the order of eviction is that of last use.
	HalfLife time.Duration
	Order    Order // nil: the least popular first
}

// Pool decides which adapters are on the device. It is not safe for concurrent use.
type Pool struct {
	cfg      Config
	pages    *Pages
	adapters map[string]*adapter
	requests map[string]*adapter // by request, those that hold an adapter
	pending  []*adapter          // loading, and waiting for pages, in order
	evicting int                 // pages that are being vacated
	owed     int                 // pages that pending adapters wait for
	host     int64               // bytes of host memory that are used
	actions  []Action
	stats    Stats
}

// adapter is one that is registered.
type adapter struct {
	id     string
	layout *Layout
	state  State
	pages  []uint32        // while it is loading, there or leaving
	dram   bool            // host memory has it, or is about to
	users  map[string]bool // requests that hold it
	gone   bool            // deleted: leaves with its last request
	popularity
}

func (a *adapter) resident() bool { return a.state == Idle || a.state == Active }

// Stats count what a pool did.
type Stats struct {
	Loads, Reads, Prefetches uint64 // Reads are the Loads from disk, Prefetches those that no request had asked for
	Hits                     uint64 // requests that came while their adapter was on the device
	Evictions, Failures      uint64
}

// NewPool returns a pool without adapters.
func NewPool(cfg Config) *Pool {
	if cfg.Window == 0 {
		cfg.Window = 5 * time.Second
	}
	if cfg.HalfLife == 0 {
		cfg.HalfLife = time.Minute
	}
	return &Pool{
		cfg: cfg, pages: NewPages(cfg.Pages), adapters: make(map[string]*adapter), requests: make(map[string]*adapter),
	}
}

// Register makes an adapter known; it is on disk.
func (p *Pool) Register(id string, layout *Layout) *Refusal {
	if a, ok := p.adapters[id]; ok {
		if a.gone {
			return refuse(Leaving, "adapter %s is being deleted; try again when its last request has ended", id)
		}
		return refuse(Duplicate, "adapter %s is registered already; delete it first", id)
	}
	if n := layout.Pages(); n > p.pages.Total() {
		return refuse(TooLarge, "adapter %s needs %d pages of 2 MiB and the pool has %d; give it more memory", id, n, p.pages.Total())
	}
	never := popularity{log: math.Inf(-1)}
	p.adapters[id] = &adapter{id: id, layout: layout, users: make(map[string]bool), popularity: never}
	return nil
}

// Restore says that an adapter which is registered is on the device already, in these pages: what a predecessor left behind. It
// reports false, and does nothing, where that can not be.
func (p *Pool) Restore(id string, pages []uint32) bool {
	a, ok := p.adapters[id]
	if !ok || a.state != Absent || len(pages) != a.layout.Pages() || !p.pages.Take(pages) {
		return false
	}
	a.pages, a.state = pages, Idle
	return true
}

// RestoreHost says that host memory has a registered adapter already. It reports false, and does nothing, where there is no room for it.
func (p *Pool) RestoreHost(id string) bool {
	a, ok := p.adapters[id]
	if !ok || a.dram || p.host+a.layout.Bytes() > p.cfg.HostBytes {
		return false
	}
	a.dram = true
	p.host += a.layout.Bytes()
	return true
}

// Delete forgets an adapter. New requests are refused at once; those that hold it finish first. It reports whether there
// was one.
func (p *Pool) Delete(id string) bool {
	a, ok := p.adapters[id]
	if !ok || a.gone {
		return false
	}
	a.gone = true
	p.leave(a)
	return true
}

// leave lets a deleted adapter go as far as it can go now.
func (p *Pool) leave(a *adapter) {
	if !a.gone || len(a.users) > 0 {
		return
	}
	if a.state == Loading && a.pages == nil {
		p.abandon(a)
	}
	switch a.state {
	case Idle:
		p.evict(a)
	case Absent:
		p.dropHost(a)
		delete(p.adapters, a.id)
	}
}

// Pin keeps an adapter for a request until Unpin, and has it loaded where it is not there. Active says that it is there;
// Loading, that Ready or Lost will follow among the actions. A request that is refused holds nothing.
func (p *Pool) Pin(request, id string) (State, *Refusal) {
	if a, ok := p.requests[request]; ok {
		if a.id != id {
			return Absent, refuse(Duplicate, "request %s holds adapter %s already", request, a.id)
		}
		return a.state, nil
	}
	a, ok := p.adapters[id]
	switch {
	case !ok:
		return Absent, refuse(Unknown, "there is no adapter %s; register it first", id)
	case a.gone:
		return Absent, refuse(Leaving, "adapter %s is being deleted", id)
	case a.state == Evicting:
		return Absent, refuse(NoRoom, "adapter %s is leaving its pages; try again", id)
	case a.state == Absent && !p.load(a, func(*adapter) bool { return true }):
		return Absent, refuse(NoRoom, "adapter %s needs %d pages, and all others are in use; try again", id, a.layout.Pages())
	}
	p.requests[request] = a
	a.users[request] = true
	if a.state == Idle {
		a.state = Active
	}
	return a.state, nil
}

// Unpin ends what Pin began. A request that holds nothing is passed over.
func (p *Pool) Unpin(request string) {
	a, ok := p.requests[request]
	if !ok {
		return
	}
	delete(p.requests, request)
	delete(a.users, request)
	switch {
	case len(a.users) > 0:
		return
	case a.state == Active:
		a.state = Idle
	case a.state == Loading && a.pages == nil:
		p.abandon(a)
	}
	p.leave(a)
	p.settle()
}

// State returns what an adapter is doing, and where it can be read from.
func (p *Pool) State(id string) (State, Tier) {
	a, ok := p.adapters[id]
	switch {
	case !ok:
		return Absent, Disk
	case a.resident():
		return a.state, GPU
	}
	return a.state, a.tier()
}

// Registered reports whether there is such an adapter, be it about to leave.
func (p *Pool) Registered(id string) bool { return p.adapters[id] != nil }

// Table returns where an adapter is; false where it is not on the device.
func (p *Pool) Table(id string) (Table, bool) {
	a, ok := p.adapters[id]
	if !ok || !a.resident() {
		return Table{}, false
	}
	return Table{a.layout, a.pages}, true
}

// Users is how many requests hold an adapter.
func (p *Pool) Users(id string) int {
	if a, ok := p.adapters[id]; ok {
		return len(a.users)
	}
	return 0
}

// Stats returns what the pool did so far.
func (p *Pool) Stats() Stats { return p.stats }

// Left is how many pages no adapter is in.
func (p *Pool) Left() int { return p.pages.Left() }
