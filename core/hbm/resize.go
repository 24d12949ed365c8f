package hbm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Resize changes a lease to hold exactly the pages for the bytes: it adds free pages, or frees the
// lease's last ones. It grants a lease that does not exist. With too few free pages it changes
// nothing and returns a Shortage.
func (l *Ledger) Resize(owner, kind string, bytes int64) (Lease, *Shortage) {
	i := slices.IndexFunc(l.leases, func(lease Lease) bool { return lease.Owner == owner && lease.Kind == kind })
	if i < 0 {
		return l.Lease(owner, kind, bytes)
	}
	lease := &l.leases[i]
	want := PagesOf(bytes)
	if more := want - len(lease.Pages); more > len(l.free) {
		return Lease{}, &Shortage{Need: int64(more) * PageBytes, Free: l.Free()}
	}
	pages := slices.Clone(lease.Pages) // the previously returned slice belongs to its caller
	for len(pages) > want {
		l.free = append(l.free, pages[len(pages)-1])
		pages = pages[:len(pages)-1]
	}
	for len(pages) < want {
		pages = append(pages, l.free[len(l.free)-1])
		l.free = l.free[:len(l.free)-1]
	}
	lease.Bytes, lease.Pages = bytes, pages
	return Lease{Owner: owner, Kind: kind, Bytes: bytes, Pages: slices.Clone(pages)}, nil
}

// PagesOf returns the number of pages that hold the bytes.
func PagesOf(bytes int64) int { return int((bytes + PageBytes - 1) / PageBytes) }

// Pool is the KV memory of one replica, as Yield and Grow see it, or its pages for adapters.
type Pool struct {
	Owner    string
	Adapters bool  // the pages are for adapters
	Priority int   // of its model; the lowest yields first
	LastUsed int64 // time of its last step, in any growing unit
	Pages    int
	// Min is the number of pages that it never yields: its guaranteed share, or the pages for one
	// sequence of full length if that is more.
	Min int
	// Share is the number of pages up to which it grows first: its share of all KV memory.
	Share int
	// Wanted is the number of additional pages that it could use.
	Wanted int
}

// Change is the number of pages that a pool yields or gets.
type Change struct {
	Owner    string
	Pages    int
	Adapters bool // the pages are for adapters
}

// Yield decides which pools yield how many pages until need pages are free. The lowest priority
// yields first; on a tie, pages for adapters before KV memory, then the pool that ran longest ago, then
// by name. No pool goes below its Min.
// If all pools together cannot yield enough, none does, ok is false, and why states the missing
// pages.
func Yield(need, free int, pools []Pool) (yields []Change, why string, ok bool) {
	order := slices.SortedFunc(slices.Values(pools), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), adaptersFirst(a, b), cmp.Compare(a.LastUsed, b.LastUsed),
			cmp.Compare(a.Owner, b.Owner))
	})
	missing := need - free
	var reasons []string
	for _, p := range order {
		if give := min(missing, p.Pages-p.Min); give > 0 {
			yields = append(yields, Change{p.Owner, give, p.Adapters})
			reasons = append(reasons, fmt.Sprintf("%s yields %d of %d pages%s", p.Owner, give, p.Pages, p.purpose()))
			missing -= give
		}
	}
	if missing > 0 {
		return nil, fmt.Sprintf("%d pages needed, %d free; %d missing after all pools yield", need, free,
			missing), false
	}
	if len(yields) == 0 {
		return nil, fmt.Sprintf("%d pages needed, %d free", need, free), true
	}
	return yields, strings.Join(reasons, "; "), true
}

func adaptersFirst(a, b Pool) int {
	switch {
	case a.Adapters == b.Adapters:
		return 0
	case a.Adapters:
		return -1
	}
	return 1
}

// purpose returns what the pages are for, if not for KV blocks.
func (p Pool) purpose() string {
	if p.Adapters {
		return " for adapters"
	}
	return ""
}

// Grow gives free pages to pools: first to those below their share, then to those that want more.
// The highest priority comes first; on a tie, the pool that ran last, then by name.
func Grow(free int, pools []Pool) (grants []Change) {
	order := slices.SortedFunc(slices.Values(pools), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.LastUsed, a.LastUsed),
			cmp.Compare(a.Owner, b.Owner))
	})
	granted := make([]int, len(order))
	for _, lacks := range []func(i int, p Pool) int{
		func(_ int, p Pool) int { return p.Share - p.Pages },
		func(i int, p Pool) int { return p.Wanted - granted[i] },
	} {
		for i, p := range order {
			more := max(0, min(free, lacks(i, p)))
			granted[i] += more
			free -= more
		}
	}
	for i, p := range order {
		if granted[i] > 0 {
			grants = append(grants, Change{p.Owner, granted[i], p.Adapters})
		}
	}
	return grants
}
