package hbm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Resize makes a lease hold just the pages for so many bytes: it gains free pages, or gives its last ones back. One that does not
// exist has none. Where too few are free nothing changes.
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
	pages := slices.Clone(lease.Pages) // what was granted before belongs to who has it
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

// PagesOf is how many pages hold so many bytes.
func PagesOf(bytes int64) int { return int((bytes + PageBytes - 1) / PageBytes) }

// Pool is the KV memory of one model, as far as it matters for who gives way and who may grow.
type Pool struct {
	Owner    string
	Priority int   // of its model; who has a lower one gives first
	LastUsed int64 // when its model last ran a step, as a number that grows
	Pages    int
	// Min is what it keeps in any case: its share of what is promised, or what one sequence of full length needs if that is more.
	Min int
	// Share is what it gets back when there is room: its share of all KV memory.
	Share int
	// Wanted is how many more pages it would put to use.
	Wanted int
}

// Change is how many pages a pool gives up, or gets.
type Change struct {
	Owner string
	Pages int
}

// Yield decides which pools give up how many pages, so that need are free: of the lowest priority first, among equals the
// one that ran longest ago, then by name; none goes below its least. Where all of them together can not, nobody gives, ok is false, and why
// says what is missing.
func Yield(need, free int, pools []Pool) (gifts []Change, why string, ok bool) {
	order := slices.SortedFunc(slices.Values(pools), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.LastUsed, b.LastUsed), cmp.Compare(a.Owner, b.Owner))
	})
	missing := need - free
	var said []string
	for _, p := range order {
		if give := min(missing, p.Pages-p.Min); give > 0 {
			gifts = append(gifts, Change{p.Owner, give})
			said = append(said, fmt.Sprintf("%s gives %d of %d pages", p.Owner, give, p.Pages))
			missing -= give
		}
	}
	if missing > 0 {
		return nil, fmt.Sprintf("%d pages needed, %d free; what KV pools could give leaves %d missing", need, free, missing), false
	}
	if len(gifts) == 0 {
		return nil, fmt.Sprintf("%d pages needed, %d free", need, free), true
	}
	return gifts, strings.Join(said, "; "), true
}

// Grow gives free pages to pools: first to those below their share, then to those that want more; to the highest priority
// first, among equals to the one that ran last, then by name.
func Grow(free int, pools []Pool) (grants []Change) {
	order := slices.SortedFunc(slices.Values(pools), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.LastUsed, a.LastUsed), cmp.Compare(a.Owner, b.Owner))
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
			grants = append(grants, Change{p.Owner, granted[i]})
		}
	}
	return grants
}
