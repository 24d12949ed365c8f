package device

import (
	"slices"
	"time"

	"troupe/core/hbm"
	"troupe/core/residency"
)

// holder is a lease and what is in its memory.
type holder struct {
	lease string
	phase Phase

	owner Actor  // of the lease
	since uint64 // start of the owner's last known incarnation

	spec     Spec   // requested by the load; not set for a recovered model
	size     Size   // set from Waiting on
	copy     uint64 // of its weights; set from Waiting on
	model    Model  // set in Resident and Freeing
	blocks   int    // number of KV blocks of the load
	shared   bool   // the load found the weights on the device
	fate     residency.Fate
	requests []Request // requests that wait for the load or the unload
	started  time.Time // start of the load
	deadline time.Time // end of the wait for memory; zero: it has not waited yet

	kv       kvMemory
	adapters adapterMemory
}

// kvMemory is the KV memory of a lease.
type kvMemory struct {
	state KV

	replica    Actor
	report     Report
	reportedAt time.Time // zero: there is no report since the replica last failed to yield
	fixed      bool      // the memory cannot be resized
	// regain is the end of the wait for the guaranteed share of a replica that was on standby. It is
	// zero if the replica lacks nothing, or has not waited yet, as lacks tells.
	regain time.Time
	lacks  bool

	attempt  uint64 // number of the last change
	blocks   int    // number of blocks after that change
	deadline time.Time
	requests []Request // load requests that wait for the change
}

// adapterMemory is the memory for adapters of a lease.
type adapterMemory struct {
	state Adapters

	pages    int       // requested pages; 0: as many as are useful
	deadline time.Time // end of the wait for memory; zero: it has not waited yet
	attempt  uint64    // number of the last allocation or change
	requests []Request

	pool       Actor
	report     PoolReport
	reportedAt time.Time // zero: there is no report since the memory was leased or last failed to shrink
	fixed      bool      // the number of pages cannot change
	target     int       // number of pages after the change
	until      time.Time // end of the wait for the pool
}

// budgeted reports whether the lease counts in the budget of the device.
func (h *holder) budgeted() bool { return h.phase >= Waiting }

// resident reports whether a model is in the memory and is not being freed.
func (h *holder) resident() bool { return h.phase == Resident }

// changing reports whether a job changes the memory.
func (h *holder) changing() bool {
	return h.kv.state == Resizing || h.adapters.state == Allocating || h.adapters.state == Changing
}

// need returns the memory that the lease needs, including that for adapters but without the
// weights, which it may share.
func (h *holder) need() hbm.Need {
	n := h.size.Need
	n.Fixed += int64(h.adapterPages())*hbm.PageBytes - h.weightBytes()
	return n
}

// weightBytes returns the bytes of the weights, in whole pages.
func (h *holder) weightBytes() int64 { return int64(hbm.PagesOf(h.size.Weights)) * hbm.PageBytes }

// adapterPages returns the number of pages for adapters that count in the budget: those that the load
// of the model requests, or that are never asked back.
func (h *holder) adapterPages() int {
	if h.phase < Resident {
		return h.spec.AdapterPages
	}
	return h.model.AdapterMin
}

// kvBytes returns the size of the given number of blocks.
func (h *holder) kvBytes(blocks int) int64 { return int64(blocks) * h.model.BlockBytes }

// kvPages returns the number of pages that the given number of blocks needs.
func (h *holder) kvPages(blocks int) int { return hbm.PagesOf(h.kvBytes(blocks)) }

// join adds a request to the waiting ones. A repeated request replaces its earlier copy.
func join(all []Request, r Request) []Request {
	if r == (Request{}) {
		return all
	}
	same := func(a Request) bool { return a == r || r.ID != "" && a.ID == r.ID }
	if i := slices.IndexFunc(all, same); i >= 0 {
		all = slices.Clone(all)
		all[i] = r
		return all
	}
	return append(all, r)
}
