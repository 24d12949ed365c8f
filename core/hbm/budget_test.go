package hbm

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const mib = 1 << 20

// TestBudgetAdmitsUntilMinimumsDoNotFit checks that tiny replicas are refused when one more would
// leave less than the minimum of each, and large ones when they would cut into the reserve.
func TestBudgetAdmitsUntilMinimumsDoNotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		total, share float64 // MiB
		need         Need    // MiB
		fit          int
		why          string // substring of the next refusal
	}{
		"tiny": {512, 0.3, Need{Fixed: 16, Min: 48, MinAlone: 2, Max: 192}, 8,
			"short of memory by 64 MiB: needs 16 MiB and at least 48 MiB for KV blocks; " +
				"of 512 MiB, 8 replicas need 128 MiB and 384 MiB, and 152 MiB is reserved for KV blocks (kv_reserve)"},
		"tiny with little KV memory": {512, 0.3, Need{Fixed: 16, Min: 4, MinAlone: 2, Max: 4}, 22,
			"short of memory by 8 MiB"},
		"no reserve": {512, 0, Need{Fixed: 16, Min: 4, MinAlone: 2, Max: 4}, 25,
			"of 512 MiB, 25 replicas"},
		"one fits exactly":           {100, 0.3, Need{Fixed: 70, Min: 48, MinAlone: 2, Max: 48}, 1, ""},
		"one takes the whole device": {100, 0.3, Need{Fixed: 20, Min: 1000, MinAlone: 2, Max: 9000}, 1, ""},
		"weights cut into the reserve": {100, 0.3, Need{Fixed: 72, Min: 2, MinAlone: 2, Max: 2}, 0,
			"short of memory by 2 MiB: needs 72 MiB and at least 2 MiB"},
		"more than the device has": {100, 0.3, Need{Fixed: 20, Min: 90, MinAlone: 90, Max: 90}, 0,
			"short of memory by 10 MiB: needs 20 MiB and at least 90 MiB"},
	} {
		b, n := NewBudget(int64(tc.total*mib), tc.share), tc.need
		n.Fixed, n.Min, n.MinAlone, n.Max = n.Fixed*mib, n.Min*mib, n.MinAlone*mib, n.Max*mib
		for range tc.fit {
			next, over := b.Add(n)
			if over != nil {
				t.Fatalf("%s: replica %d: %v", name, b.Replicas, over)
			}
			b = next
		}
		if _, over := b.Add(n); over == nil || !strings.Contains(over.Error(), tc.why) {
			t.Errorf("%s: replica %d: %v", name, b.Replicas, over)
		}
	}
}

func TestSharesRespectMinAndMax(t *testing.T) {
	page := func(n ...int64) (all []Need) {
		for i := 0; i < len(n); i += 2 {
			all = append(all, Need{Min: n[i] * PageBytes, Max: n[i+1] * PageBytes, MinAlone: PageBytes})
		}
		return all
	}
	for name, tc := range map[string]struct {
		kv    int64
		needs []Need
		want  []int64
	}{
		"equal":                          {30, page(1, 99, 1, 99, 1, 99), []int64{10, 10, 10}},
		"one with a lower maximum":       {30, page(1, 99, 1, 4, 1, 99), []int64{13, 4, 13}},
		"one with a higher minimum":      {30, page(20, 99, 1, 99, 1, 99), []int64{20, 5, 5}},
		"a single one at its maximum":    {30, page(1, 7), []int64{7}},
		"a single one below its minimum": {30, page(90, 99), []int64{30}},
		"none":                           {30, nil, nil},
	} {
		for i, got := range Shares(tc.kv*PageBytes, tc.needs) {
			if got != tc.want[i]*PageBytes {
				t.Errorf("%s: replica %d has %d pages, want %d", name, i, got/PageBytes, tc.want[i])
			}
		}
	}
}

// device applies decisions to a ledger, as a gpu actor does.
type device struct {
	*Ledger
	empty Budget
	needs []Need
	names []string
	next  int
}

func (d *device) pools() (pools []Pool) {
	b := d.empty.With(d.needs...)
	promised, all := Shares(b.Guaranteed(), d.needs), Shares(b.KV(), d.needs)
	for i, name := range d.names {
		pools = append(pools, Pool{
			Owner: name, Pages: d.kv(name), Min: int(promised[i] / PageBytes), Share: int(all[i] / PageBytes),
		})
	}
	return pools
}

func (d *device) kv(name string) int {
	for _, l := range d.Leases() {
		if l.Owner == name && l.Kind == "kv" {
			return len(l.Pages)
		}
	}
	return 0
}

func (d *device) resize(t *rapid.T, changes []Change, sign int) {
	for _, c := range changes {
		if _, short := d.Resize(c.Owner, "kv", int64(d.kv(c.Owner)+sign*c.Pages)*PageBytes); short != nil {
			t.Fatalf("%+v: %v", c, short)
		}
	}
}

// TestBudgetInvariants places and removes replicas of random sizes. An admitted replica can always
// be placed, and weights never cut into the reserve. Every replica keeps its guaranteed share and
// its minimum, however many replicas come. Yielded memory returns when other replicas leave.
func TestBudgetInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.Int64Range(4, 200).Draw(t, "pages")
		d := &device{Ledger: NewLedger(pages * PageBytes), empty: NewBudget(pages*PageBytes,
			rapid.Float64Range(0, 0.9).Draw(t, "reserve"))}
		grow := func(t *rapid.T) { d.resize(t, Grow(int(d.Free()/PageBytes), d.pools()), 1) }
		t.Repeat(map[string]func(*rapid.T){
			"place": func(t *rapid.T) {
				size := func(name string, low, high int64) int64 {
					return rapid.Int64Range(low, high).Draw(t, name) * PageBytes
				}
				n := Need{Fixed: size("fixed", 1, 60), Min: size("min", 1, 40), MinAlone: PageBytes}
				n.Max = n.Min + size("more", 0, 60)
				before := d.empty.With(d.needs...)
				after, over := before.Add(n)
				if over != nil {
					if bytes, _, _, _ := over.Sizes(); over.Short <= 0 || bytes <= 0 {
						t.Fatalf("refused without a shortage: %+v", over)
					}
					return
				}
				if after.Fixed+after.Reserve > after.Total {
					t.Fatalf("weights of %d leave less than the reserve of %d of %d", after.Fixed,
						after.Reserve, after.Total)
				}
				name := string(rune('a' + d.next))
				d.next++
				d.needs, d.names = append(d.needs, n), append(d.names, name)
				pools := d.pools()
				own := pools[len(pools)-1]
				need, free := int(n.Fixed/PageBytes)+own.Min, int(d.Free()/PageBytes)
				yields, why, ok := Yield(need, free, pools[:len(pools)-1])
				if !ok {
					t.Fatalf("admitted without room: %s", why)
				}
				d.resize(t, yields, -1)
				if _, short := d.Lease(name, "weights", n.Fixed); short != nil {
					t.Fatal(short)
				}
				kv := min(max(own.Min, own.Share), int(d.Free()/PageBytes))
				if _, short := d.Lease(name, "kv", int64(kv)*PageBytes); short != nil || kv < own.Min {
					t.Fatalf("%d pages of %d: %v", kv, own.Min, short)
				}
			},
			"remove": func(t *rapid.T) {
				if len(d.names) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(d.names)-1).Draw(t, "which")
				d.Release(d.names[i])
				d.names = append(append([]string(nil), d.names[:i]...), d.names[i+1:]...)
				d.needs = append(append([]Need(nil), d.needs[:i]...), d.needs[i+1:]...)
				grow(t)
				if len(d.names) == 1 {
					if want := min(d.needs[0].Max,
						d.empty.With(d.needs...).KV()); int64(d.kv(d.names[0]))*PageBytes != want {
						t.Fatalf("alone, it has %d pages, want %d", d.kv(d.names[0]), want/PageBytes)
					}
				}
			},
			"": func(t *rapid.T) {
				b := d.empty.With(d.needs...)
				var sum int64
				for i, n := range d.needs {
					kv := int64(d.kv(d.names[i])) * PageBytes
					sum += n.Fixed + kv
					if minimum := min(n.Min, b.KV()); kv < minimum {
						t.Fatalf("%s has %d pages, less than its minimum of %d", d.names[i], kv/PageBytes,
							minimum/PageBytes)
					}
				}
				if sum+d.Free() != b.Total {
					t.Fatalf("%d of %d bytes", sum+d.Free(), b.Total)
				}
			},
		})
	})
}
