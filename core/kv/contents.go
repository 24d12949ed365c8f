package kv

import (
	"cmp"
	"maps"
	"slices"
)

// Contents records what the blocks in a device's memory hold, by the lease of the memory. The
// owners of the leases report every change, so after a crash of an owner its successor finds the
// blocks again. A block that was not reported is unknown. Contents is not safe for concurrent use.
//
// Invariants, checked by the property test:
//
//   - reported: a block is known with the hash that was reported last, or not at all
//   - bounded: no block beyond the size of its lease is adopted
//   - layout: blocks of another size than the lease's are not adopted
type Contents struct {
	leases map[string]*leaseContents
}

// leaseContents are the contents of one lease.
type leaseContents struct {
	blocks     int
	blockBytes uint64 // 0: not known
	resident   map[int32]Hash
}

// LeaseStats describe a lease.
type LeaseStats struct {
	Lease            string
	Blocks, Resident int
	BlockBytes       uint64
}

// NewContents returns a Contents that knows no lease.
func NewContents() *Contents { return &Contents{leases: make(map[string]*leaseContents)} }

// Adopt sets the number and the size of a lease's blocks and returns what they hold, in order.
func (c *Contents) Adopt(lease string, blocks int, blockBytes uint64) (resident []Committed) {
	l := c.lease(lease)
	if l.blockBytes != 0 && l.blockBytes != blockBytes {
		clear(l.resident) // the lease has a new block layout
	}
	l.blockBytes = blockBytes
	c.Resize(lease, blocks)
	for _, block := range slices.Sorted(maps.Keys(l.resident)) {
		resident = append(resident, Committed{block, l.resident[block]})
	}
	return resident
}

// Resize sets the number of a lease's blocks and forgets those beyond it. It ignores an unknown
// lease.
func (c *Contents) Resize(lease string, blocks int) {
	if l, ok := c.leases[lease]; ok {
		l.blocks = blocks
		maps.DeleteFunc(l.resident, func(block int32, _ Hash) bool { return int(block) >= blocks })
	}
}

// Change records evicted blocks and then committed ones.
func (c *Contents) Change(lease string, evicted []int32, committed []Committed) {
	l := c.lease(lease)
	for _, block := range evicted {
		delete(l.resident, block)
	}
	for _, b := range committed {
		l.resident[b.Block] = b.Hash
	}
}

// Release forgets a lease that no longer exists.
func (c *Contents) Release(lease string) { delete(c.leases, lease) }

// Stats returns the current statistics of all leases, sorted by name.
func (c *Contents) Stats() (all []LeaseStats) {
	for name, l := range c.leases {
		all = append(all, LeaseStats{name, l.blocks, len(l.resident), l.blockBytes})
	}
	slices.SortFunc(all, func(a, b LeaseStats) int { return cmp.Compare(a.Lease, b.Lease) })
	return all
}

// lease returns the contents of a lease, which may be unknown so far.
func (c *Contents) lease(name string) *leaseContents {
	l, ok := c.leases[name]
	if !ok {
		l = &leaseContents{resident: make(map[int32]Hash)}
		c.leases[name] = l
	}
	return l
}
