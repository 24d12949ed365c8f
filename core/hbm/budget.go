package hbm

import (
	"fmt"
	"sort"

	"troupe/core/units"
)

// DefaultKVReserve is the share of a device's memory that is kept for KV blocks.
const DefaultKVReserve = 0.30

// Need is what a replica needs of a device, in bytes of whole pages.
type Need struct {
	Fixed    int64 // weights, workspace and adapters
	Min      int64 // of KV blocks, beside other replicas
	MinAlone int64 // of KV blocks, where it is alone on the device
	Max      int64 // of KV blocks, what it could put to use
}

// Budget is the memory of a device as placement counts it, in bytes of whole pages.
//
// Invariant: Fixed and the larger of Reserve and Min are within Total, but for a replica that is alone: it may have less
// than its Min.
type Budget struct {
	Total    int64
	Reserve  int64 // kept for KV blocks, and divided among the replicas
	Fixed    int64 // of all replicas
	Min      int64 // of all replicas
	Replicas int
}

// NewBudget is the budget of an empty device that keeps a share of its memory for KV blocks.
func NewBudget(total int64, share float64) Budget {
	total -= total % PageBytes
	reserve := int64(share * float64(total))
	return Budget{Total: total, Reserve: reserve - reserve%PageBytes}
}

// Overload says why a replica is refused.
type Overload struct {
	Need   Need
	Budget Budget // of the device, without the replica
	Short  int64  // bytes that are missing
}

func (o *Overload) Error() string {
	b := o.Budget
	size := units.FormatBytes
	return fmt.Sprintf("short of memory by %s: %s needed, and %s for KV blocks at least; of %s, %d replicas need %s and %s, "+
		"and %s are kept for KV blocks (kv_reserve); delete a model, lower max_sequences or kv_blocks, or use a larger device",
		size(o.Short), size(o.Need.Fixed), size(o.least()), size(b.Total), b.Replicas, size(b.Fixed), size(b.Min), size(b.Reserve))
}

// Sizes are the bytes that the replica needs in all, those that the replicas on the device need, those of the device, and those
// that are kept for KV blocks.
func (o *Overload) Sizes() (bytes, used, total, reserve int64) {
	return o.Need.Fixed + o.least(), o.Budget.Fixed + o.Budget.Min, o.Budget.Total, o.Budget.Reserve
}

func (o *Overload) least() int64 { return o.Budget.leastOf(o.Need) }

// leastOf is what a replica needs for KV blocks if it comes next.
func (b Budget) leastOf(n Need) int64 {
	if b.Replicas == 0 {
		return min(n.MinAlone, n.Min)
	}
	return n.Min
}

// Add counts one more replica, or refuses it: its weights must leave the reserve, and every replica its least.
func (b Budget) Add(n Need) (Budget, *Overload) {
	if short := b.Fixed + n.Fixed + max(b.Reserve, b.Min+b.leastOf(n)) - b.Total; short > 0 {
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

// With counts replicas that are on the device already.
func (b Budget) With(needs ...Need) Budget {
	for _, n := range needs {
		b = b.with(n)
	}
	return b
}

// KV is the memory that is left for KV blocks.
func (b Budget) KV() int64 { return max(0, b.Total-b.Fixed) }

// Guaranteed is what of it no replica has to give up: the reserve, or where that is more, what the replicas need at least.
func (b Budget) Guaranteed() int64 { return min(b.KV(), max(b.Reserve, b.Min)) }

// Spare is the memory that no replica needs.
func (b Budget) Spare() int64 { return b.KV() - b.Guaranteed() }

// Shares divides memory for KV blocks among replicas, in bytes of whole pages: equally, but for those that need more at
// least, and those that can use no more.
func Shares(kv int64, needs []Need) []int64 {
	share := func(level int64, n Need) int64 { return min(max(level, n.Min), max(n.Max, n.MinAlone)) }
	fits := func(level int64) bool {
		left := kv
		for _, n := range needs {
			left -= share(level, n)
		}
		return left >= 0
	}
	level := int64(sort.Search(int(kv/PageBytes)+1, func(pages int) bool { return !fits(int64(pages) * PageBytes) })-1) * PageBytes
	all := make([]int64, len(needs))
	for i, n := range needs {
		all[i] = min(share(level, n), kv)
	}
	return all
}
