package gpu

import (
	"slices"
	"time"

	"troupe/core/hbm"
	"troupe/engine/residency"
	"troupe/messages"
)

// needs returns the leases that count in the budget, sorted, and the memory that each needs. These
// are the leases that are held and the loads that the budget has room for.
func (d *device) needs() (leases []string, needs []hbm.Need) {
	all := make(map[string]hbm.Need)
	for lease, l := range d.loading {
		if l.budgeted {
			all[lease] = l.facts.Need(l.spec())
		}
	}
	for lease, m := range d.held {
		all[lease] = m.Info.Need(m.LoadSpec)
	}
	for lease := range all {
		leases = append(leases, lease)
	}
	slices.Sort(leases)
	for _, lease := range leases {
		needs = append(needs, all[lease])
	}
	return leases, needs
}

func (d *device) emptyBudget() hbm.Budget { return hbm.NewBudget(d.Info.MemoryBytes, d.KVReserve) }

func (d *device) budget() hbm.Budget {
	_, needs := d.needs()
	return d.emptyBudget().With(needs...)
}

// share is a lease's share of the memory for KV blocks, in pages.
type share struct {
	guaranteed int // never yielded
	full       int // guaranteed, and pages that it gets when there is room
}

func (d *device) shares() map[string]share {
	leases, needs := d.needs()
	b := d.emptyBudget().With(needs...)
	guaranteed, full := hbm.Shares(b.Guaranteed(), needs), hbm.Shares(b.KV(), needs)
	shares := make(map[string]share, len(leases))
	for i, lease := range leases {
		shares[lease] = share{hbm.PagesOf(guaranteed[i]), hbm.PagesOf(full[i])}
	}
	return shares
}

// mayYieldLater reports whether replicas without a recent report could yield the missing pages:
// they are loading, or about to report. While one of them loads, the wait does not time out.
func (d *device) mayYieldLater(missing int, pools []hbm.Pool, deadline *time.Time) bool {
	shares, loading := d.shares(), false
	could := make(map[string]int)
	for _, l := range d.ledger.Leases() {
		if l.Kind == "kv" && !d.notResizable[l.Owner] && d.freeing[l.Owner] == nil {
			could[l.Owner] = max(0, len(l.Pages)-shares[l.Owner].guaranteed)
			loading = loading || d.loading[l.Owner] != nil && could[l.Owner] > 0
		}
	}
	for _, p := range pools {
		could[p.Owner] = max(0, p.Pages-p.Min)
	}
	for _, pages := range could {
		missing -= pages
	}
	if missing > 0 {
		return false
	}
	if loading {
		*deadline = time.Time{}
	}
	return true
}

// blocksAlone returns the number of KV blocks that a model would have as the only one on the
// device.
func (d *device) blocksAlone(m residency.Loaded) int {
	need := m.Info.Need(m.LoadSpec)
	return min(m.Info.KVSize(m.LoadSpec).Max(), int((d.emptyBudget().Total-need.Fixed)/max(1, m.KVBlockBytes)))
}

func (d *device) budgetReport() *messages.MemoryBudget {
	leases, _ := d.needs()
	b := d.budget()
	return &messages.MemoryBudget{
		KvReserve: uint64(b.Reserve), Fixed: uint64(b.Fixed), KvMinBytes: uint64(b.Min), Replicas: leases,
	}
}

// overloadRefusal returns the refusal of a load that does not fit the budget.
func (d *device) overloadRefusal(l *load, over *hbm.Overload) *messages.Refused {
	return &messages.Refused{
		Reason: messages.Reason_REASON_NO_MEMORY, Detail: d.Name + ", " + l.command.GetPath() + ": " + over.Error(),
		Memory: messages.ShortOfMemory(l.command.GetPath(), over),
	}
}
