package hbm

import (
	"cmp"
	"fmt"
	"slices"
)

// PageBytes is the size of a page: the granularity of CUDA's virtual memory management.
const PageBytes = 2 << 20

// Lease is a set of pages granted to an owner.
type Lease struct {
	Owner string
	Kind  string // "weights", "kv"
	Bytes int64  // requested; the pages hold at least as many
	Pages []uint32
}

// Shortage is the error of a lease that does not fit the free pages.
type Shortage struct {
	Need, Free int64 // bytes, in whole pages
}

func (s *Shortage) Error() string {
	return fmt.Sprintf("short of memory by %d MiB: %d MiB needed, %d MiB free; delete a model, or use a larger device",
		(s.Need-s.Free)>>20, s.Need>>20, s.Free>>20)
}

// Ledger is the account of one device's pages. It is not safe for concurrent use.
type Ledger struct {
	pages  int
	free   []uint32 // a stack; the lowest page starts on top
	leases []Lease
}

// NewLedger returns the ledger of a device with this much memory, all free. It ignores a partial
// page at the end.
func NewLedger(bytes int64) *Ledger {
	l := &Ledger{pages: int(bytes / PageBytes)}
	for p := l.pages - 1; p >= 0; p-- {
		l.free = append(l.free, uint32(p))
	}
	return l
}

// Lease grants pages for the bytes, all or none.
func (l *Ledger) Lease(owner, kind string, bytes int64) (Lease, *Shortage) {
	n := PagesOf(bytes)
	if n > len(l.free) {
		return Lease{}, &Shortage{Need: int64(n) * PageBytes, Free: l.Free()}
	}
	at := len(l.free) - n
	lease := Lease{Owner: owner, Kind: kind, Bytes: bytes, Pages: slices.Clone(l.free[at:])}
	l.free = l.free[:at]
	l.leases = append(l.leases, lease)
	return lease, nil
}

// Release frees all leases of an owner and returns the bytes of their pages.
func (l *Ledger) Release(owner string) int64 {
	return l.release(func(lease Lease) bool { return lease.Owner == owner })
}

// ReleaseKind frees the leases of one kind that an owner has and returns the bytes of their pages.
func (l *Ledger) ReleaseKind(owner, kind string) int64 {
	return l.release(func(lease Lease) bool { return lease.Owner == owner && lease.Kind == kind })
}

func (l *Ledger) release(which func(Lease) bool) int64 {
	var pages int
	l.leases = slices.DeleteFunc(l.leases, func(lease Lease) bool {
		if !which(lease) {
			return false
		}
		l.free = append(l.free, lease.Pages...)
		pages += len(lease.Pages)
		return true
	})
	return int64(pages) * PageBytes
}

// Free returns the bytes of the free pages.
func (l *Ledger) Free() int64 { return int64(len(l.free)) * PageBytes }

// Total returns the bytes of all pages.
func (l *Ledger) Total() int64 { return int64(l.pages) * PageBytes }

// Leases returns all leases, sorted by owner and kind.
func (l *Ledger) Leases() []Lease {
	leases := slices.Clone(l.leases)
	slices.SortStableFunc(leases, func(a, b Lease) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Kind, b.Kind))
	})
	return leases
}
