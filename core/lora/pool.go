package lora

import (
	"fmt"
	"math"
	"time"
)

// State is the state of an adapter on the device.
type State int

// States.
const (
	Absent   State = iota
	Loading        // its pages are being copied, or it waits for pages that are being evicted
	Idle           // on the device, not pinned by any request
	Active         // on the device and pinned by requests
	Evicting       // its pages are about to be freed
)

func (s State) String() string {
	return [...]string{"absent", "loading", "idle", "active", "evicting"}[s]
}

// Tier is where an adapter is read from: the nearest tier that has it.
type Tier int

// Tiers.
const (
	Disk Tier = iota
	DRAM
	GPU
)

func (t Tier) String() string { return [...]string{"disk", "dram", "gpu"}[t] }

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
	Pages     []uint32 // of the device, leased for adapters
	HostBytes int64    // of host memory to cache adapters that were read; 0: no cache
	// Window is how long a request protects its adapter from eviction by a prefetch; 5 s by
	// default.
	Window time.Duration
	// HalfLife is the time after which a request counts half in an adapter's popularity; 60 s by
	// default. The shorter it is, the closer eviction comes to LRU.
	HalfLife time.Duration
	Order    Order // nil: least popular first
}

// Pool decides which adapters are on the device. It is not safe for concurrent use.
type Pool struct {
	cfg           Config
	pages         *Pages
	adapters      map[string]*adapter
	requests      map[string]*adapter // by request; those that hold an adapter
	pending       []*adapter          // loading and waiting for pages, in order
	evictingPages int                 // pages being evicted
	pendingPages  int                 // pages that pending adapters wait for
	hostBytes     int64               // host memory in use
	actions       []Action
	stats         Stats
}

// adapter is a registered adapter.
type adapter struct {
	id      string
	layout  *Layout
	state   State
	pages   []uint32        // while loading, resident or evicting
	inHost  bool            // host memory has it, or is about to
	users   map[string]bool // requests that pin it
	deleted bool            // deleted; disappears after its last request
	popularity
}

func (a *adapter) resident() bool { return a.state == Idle || a.state == Active }

// Stats count the pool's operations.
type Stats struct {
	// Reads counts the Loads from disk, and Prefetches those that no request had asked for.
	Loads, Reads, Prefetches uint64
	Hits                     uint64 // requests that found their adapter on the device
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

// Register adds an adapter, which is on disk.
func (p *Pool) Register(id string, layout *Layout) *Refusal {
	if a, ok := p.adapters[id]; ok {
		if a.deleted {
			return refuse(Deleting, "adapter %s is being deleted; retry when its last request has ended", id)
		}
		return refuse(Duplicate, "adapter %s is already registered; delete it first", id)
	}
	if n := layout.Pages(); n > p.pages.Total() {
		return refuse(TooLarge, "adapter %s needs %d pages of 2 MiB and the pool has %d; give it more memory", id, n,
			p.pages.Total())
	}
	never := popularity{log: math.Inf(-1)}
	p.adapters[id] = &adapter{id: id, layout: layout, users: make(map[string]bool), popularity: never}
	return nil
}

// Recover marks a registered adapter as resident on the device, in pages that an earlier
// incarnation filled. It reports false and does nothing if that is impossible.
func (p *Pool) Recover(id string, pages []uint32) bool {
	a, ok := p.adapters[id]
	if !ok || a.state != Absent || len(pages) != a.layout.Pages() || !p.pages.Reserve(pages) {
		return false
	}
	a.pages, a.state = pages, Idle
	return true
}

// RecoverHost marks a registered adapter as resident in host memory. It reports false and does
// nothing if there is no room for it.
func (p *Pool) RecoverHost(id string) bool {
	a, ok := p.adapters[id]
	if !ok || a.inHost || p.hostBytes+a.layout.Bytes() > p.cfg.HostBytes {
		return false
	}
	a.inHost = true
	p.hostBytes += a.layout.Bytes()
	return true
}

// Delete removes an adapter. New requests are refused at once; those that hold it finish first. It
// reports whether the adapter existed.
func (p *Pool) Delete(id string) bool {
	a, ok := p.adapters[id]
	if !ok || a.deleted {
		return false
	}
	a.deleted = true
	p.finishDelete(a)
	return true
}

// finishDelete advances the removal of a deleted adapter as far as possible.
func (p *Pool) finishDelete(a *adapter) {
	if !a.deleted || len(a.users) > 0 {
		return
	}
	if a.state == Loading && a.pages == nil {
		p.cancelLoad(a)
	}
	switch a.state {
	case Idle:
		p.evict(a)
	case Absent:
		p.dropHost(a)
		delete(p.adapters, a.id)
	}
}

// Pin holds an adapter for a request until Unpin and loads it if necessary. It returns Active if
// the adapter is on the device. It returns Loading if a Ready or Lost action will follow. A refused
// request holds nothing.
func (p *Pool) Pin(request, id string) (State, *Refusal) {
	if a, ok := p.requests[request]; ok {
		if a.id != id {
			return Absent, refuse(Duplicate, "request %s already holds adapter %s", request, a.id)
		}
		return a.state, nil
	}
	a, ok := p.adapters[id]
	switch {
	case !ok:
		return Absent, refuse(Unknown, "adapter %s not found; register it first", id)
	case a.deleted:
		return Absent, refuse(Deleting, "adapter %s is being deleted", id)
	case a.state == Evicting:
		return Absent, refuse(NoRoom, "adapter %s is being evicted; try again", id)
	case a.state == Absent && !p.load(a, func(*adapter) bool { return true }):
		return Absent, refuse(NoRoom, "adapter %s needs %d pages, and all others are in use; try again", id,
			a.layout.Pages())
	}
	p.requests[request] = a
	a.users[request] = true
	if a.state == Idle {
		a.state = Active
	}
	return a.state, nil
}

// Unpin releases a request's pin. It ignores a request without one.
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
		p.cancelLoad(a)
	}
	p.finishDelete(a)
	p.startPending()
}

// State returns the state of an adapter and the nearest tier that has it.
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

// FreePages returns the number of free pages.
func (p *Pool) FreePages() int { return p.pages.Available() }
