package hbm

import (
	"fmt"
	"sort"

	"troupe/core/units"
)

// DefaultKVReserve is the default share of a device's memory that is reserved for KV blocks.
const DefaultKVReserve = 0.30

// Need is the device memory that a replica needs, in bytes of whole pages.
type Need struct {
	Fixed    int64 // weights, workspace, graphs and adapters
	Min      int64 // minimum for KV blocks on a device shared with other replicas
	MinAlone int64 // minimum for KV blocks as the only replica on the device
	Max      int64 // the most that its KV blocks can use
}

// Budget accounts for a device's memory when replicas are placed, in bytes of whole pages.
//
// Invariant: Fixed plus the larger of Reserve and Min is at most Total. The exception is a single
// replica, which may have less than its Min.
type Budget struct {
	Total    int64
	Reserve  int64 // for KV blocks, divided among the replicas
	Fixed    int64 // sum over all replicas
	Min      int64 // sum over all replicas
	Replicas int
}

// NewBudget returns the budget of an empty device that reserves a share of its memory for KV
// blocks.
func NewBudget(total int64, share float64) Budget {
	total -= total % PageBytes
	reserve := int64(share * float64(total))
	return Budget{Total: total, Reserve: reserve - reserve%PageBytes}
}

// Overload is the error of a replica that does not fit a device's budget.
type Overload struct {
	Need   Need
	Budget Budget // the device's budget without this replica
	Short  int64  // missing bytes
}

func (o *Overload) Error() string {
	b := o.Budget
	size := units.FormatBytes
	return fmt.Sprintf("short of memory by %s: needs %s and at least %s for KV blocks; "+
		"of %s, %d replicas need %s and %s, and %s is reserved for KV blocks (kv_reserve); "+
		"delete a model, lower max_sequences or kv_blocks, or use a larger device",
		size(o.Short), size(o.Need.Fixed), size(o.min()), size(b.Total), b.Replicas, size(b.Fixed), size(b.Min),
		size(b.Reserve))
}

// Sizes returns the bytes that the replica needs, the bytes that the replicas on the device need,
// the device's total, and its reserve for KV blocks.
func (o *Overload) Sizes() (bytes, used, total, reserve int64) {
	return o.Need.Fixed + o.min(), o.Budget.Fixed + o.Budget.Min, o.Budget.Total, o.Budget.Reserve
}

func (o *Overload) min() int64 { return o.Budget.minFor(o.Need) }

// minFor returns the minimum for KV blocks that a replica needs if it is placed next.
func (b Budget) minFor(n Need) int64 {
	if b.Replicas == 0 {
		return min(n.MinAlone, n.Min)
	}
	return n.Min
}

// Add adds a replica to the budget. It refuses the replica if its weights cut into the reserve, or
// if the replicas would have less than their minimum for KV blocks.
func (b Budget) Add(n Need) (Budget, *Overload) {
	if short := b.Fixed + n.Fixed + max(b.Reserve, b.Min+b.minFor(n)) - b.Total; short > 0 {
		return b, &Overload{Need: n, Budget: b, Short: short}
	}
	return b.with(n), nil
}

func (b Budget) with(n Need) Budget {
	b.Fixed += n.Fixed
	b.Min += n.Min
	b.Replicas++
	return b
}

// With adds replicas that are already on the device, without a check.
func (b Budget) With(needs ...Need) Budget {
	for _, n := range needs {
		b = b.with(n)
	}
	return b
}

// KV returns the memory left for KV blocks.
func (b Budget) KV() int64 { return max(0, b.Total-b.Fixed) }

// Guaranteed returns the part of KV that replicas never have to yield: the larger of the reserve
// and the sum of their minimums.
func (b Budget) Guaranteed() int64 { return min(b.KV(), max(b.Reserve, b.Min)) }

// Spare returns the memory that no replica needs.
func (b Budget) Spare() int64 { return b.KV() - b.Guaranteed() }

// Shares divides memory for KV blocks among replicas, in bytes of whole pages. All shares are
// equal, except those of replicas with a higher minimum or a lower maximum.
func Shares(kv int64, needs []Need) []int64 {
	share := func(level int64, n Need) int64 { return min(max(level, n.Min), max(n.Max, n.MinAlone)) }
	fits := func(level int64) bool {
		left := kv
		for _, n := range needs {
			left -= share(level, n)
		}
		return left >= 0
	}
	level := int64(sort.Search(int(kv/PageBytes)+1,
		func(pages int) bool { return !fits(int64(pages) * PageBytes) })-1) * PageBytes
	all := make([]int64, len(needs))
	for i, n := range needs {
		all[i] = min(share(level, n), kv)
	}
	return all
}
