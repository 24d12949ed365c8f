package hbm

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestLedgerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(0, 20).Draw(t, "pages")
		l := NewLedger(int64(pages)*PageBytes + rapid.Int64Range(0, PageBytes-1).Draw(t, "rest"))
		owners := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"lease": func(t *rapid.T) {
				bytes, free := rapid.Int64Range(0, 8*PageBytes).Draw(t, "bytes"), l.Free()
				lease, short := l.Lease(owners.Draw(t, "owner"), "kv", bytes)
				switch {
				case short == nil && (int64(len(lease.Pages))*PageBytes < bytes ||
					l.Free() != free-int64(len(lease.Pages))*PageBytes):
					t.Fatalf("atomic: %d pages for %d bytes", len(lease.Pages), bytes)
				case short != nil && (bytes <= free || l.Free() != free || short.Need-short.Free <= 0):
					t.Fatalf("atomic: refused %d of %d bytes: %v", bytes, free, short)
				}
			},
			"resize": func(t *rapid.T) {
				owner, bytes, free := owners.Draw(t, "owner"), rapid.Int64Range(0, 8*PageBytes).Draw(t, "bytes"),
					l.Free()
				had := 0
				for _, lease := range l.Leases() {
					if lease.Owner == owner {
						had = len(lease.Pages) // Resize changes the owner's oldest lease, which is the first
						break
					}
				}
				lease, short := l.Resize(owner, "kv", bytes)
				switch {
				case short == nil && (len(lease.Pages) != PagesOf(bytes) ||
					l.Free() != free-int64(len(lease.Pages)-had)*PageBytes):
					t.Fatalf("atomic: %d pages for %d bytes, before %d", len(lease.Pages), bytes, had)
				case short != nil && l.Free() != free:
					t.Fatalf("atomic: refused, and free went to %d from %d", l.Free(), free)
				}
			},
			"release": func(t *rapid.T) {
				free := l.Free()
				if got := l.Release(owners.Draw(t, "owner")); l.Free() != free+got {
					t.Fatalf("conservation: %d released, free from %d to %d", got, free, l.Free())
				}
			},
			"": func(t *rapid.T) {
				seen := map[uint32]string{}
				for _, lease := range l.Leases() {
					for _, p := range lease.Pages {
						if other, taken := seen[p]; taken || int(p) >= pages {
							t.Fatalf("exclusive: page %d is in %s and %s", p, other, lease.Owner)
						}
						seen[p] = lease.Owner
					}
				}
				if int64(len(seen))*PageBytes+l.Free() != l.Total() || l.Total() != int64(pages)*PageBytes {
					t.Fatalf("conservation: %d leased, %d free of %d", len(seen), l.Free()/PageBytes, pages)
				}
			},
		})
	})
}

func TestLeasesSorted(t *testing.T) {
	l := NewLedger(8 * PageBytes)
	for _, c := range [][2]string{{"b", "kv"}, {"a", "weights"}, {"a", "kv"}} {
		l.Lease(c[0], c[1], 1)
	}
	got := ""
	for _, lease := range l.Leases() {
		got += fmt.Sprint(lease.Owner, lease.Kind, " ")
	}
	if got != "akv aweights bkv " {
		t.Error(got)
	}
}
