package top

import (
	"cmp"
	"fmt"
	"strings"

	"troupe/core/kv"
	"troupe/core/units"
	"troupe/messages"
)

var tierColumns = []column{
	{name: "TIER"}, {name: "FULL", numeric: true, bar: true}, {name: "BLOCKS", numeric: true},
	{name: "PINNED", numeric: true}, {name: "MOVING", numeric: true},
	{name: "HITS", numeric: true}, {name: "IN", numeric: true}, {name: "DOWN", numeric: true},
	{name: "DROPPED", numeric: true}, {name: "DAMAGED", numeric: true}, {name: "NOTE"},
}

// tierSection shows HBM and the lower tiers of each node.
func tierSection(s KVSample) section {
	t := section{columns: tierColumns}
	for _, n := range s.GetNodes() {
		if n.GetUnreachable() != "" {
			blank := make([]cell, len(tierColumns))
			blank[0], blank[len(blank)-1] = word(n.GetNode()), word("unreachable: "+n.GetUnreachable())
			t.rows = append(t.rows, row{blank, critical})
			continue
		}
		t.rows = append(t.rows, row{hbmCells(n), normal})
		for _, tier := range n.GetTiers() {
			m := normal
			if tier.GetSlots().GetDamaged() > 0 {
				m = warning
			}
			cells := tierCells
			if tier.GetSlots().GetName() == "remote" {
				cells = remoteCells
			}
			t.rows = append(t.rows, row{cells(n.GetNode(), tier), m})
		}
	}
	return t
}

func tierCells(node string, t *messages.KvTier) []cell {
	s := t.GetSlots()
	return []cell{
		word(qualifiedName(node, s.GetName())), usage(s.GetTakenBytes(), s.GetCapacityBytes()),
		number(float64(s.GetResident())), number(float64(s.GetPinned())),
		number(float64(s.GetArriving() + s.GetLeaving())), hits(s.GetHits(), s.GetMisses()),
		number(float64(s.GetArrivals())), number(float64(s.GetDemotions())), number(float64(s.GetDrops())),
		number(float64(s.GetDamaged())),
		word(fmt.Sprintf("%s; %s; %s", t.GetDetail(), slabs(s), t.GetPolicy())),
	}
}

// remoteCells returns the cells of the remote tier. Its used bytes are the blocks in flight, and
// its blocks are those that other nodes announced.
func remoteCells(node string, t *messages.KvTier) []cell {
	s := t.GetSlots()
	note := t.GetDetail()
	for _, h := range s.GetHolders() {
		note += fmt.Sprintf("; %s: %d blocks received", h.GetName(), h.GetBlocks())
		if h.GetBytesPerSecond() > 0 {
			note += fmt.Sprintf(
				", %s/s after %.1f ms", units.FormatBytes(int64(h.GetBytesPerSecond())), 1000*h.GetFirstSeconds(),
			)
		}
	}
	return []cell{
		word(qualifiedName(node, s.GetName())), usage(s.GetTakenBytes(), s.GetCapacityBytes()),
		number(float64(s.GetResident())), number(0),
		number(float64(s.GetArriving())), hits(s.GetHits(), s.GetMisses()), number(float64(s.GetArrivals())),
		number(0), number(0), number(0), word(note),
	}
}

// slabs describes how a tier's slabs are divided among block sizes.
func slabs(s *messages.SlotsStatus) string {
	free, parts := s.GetSlabs(), []string(nil)
	for _, z := range s.GetSizes() {
		free -= z.GetSlabs()
		parts = append(parts, fmt.Sprintf("%d for %s", z.GetSlabs(), units.FormatBytes(int64(z.GetBlockBytes()))))
	}
	return fmt.Sprintf("slabs: %s", strings.Join(append(parts, fmt.Sprintf("%d free", free)), ", "))
}

// hbmCells adds up the replicas of a node.
func hbmCells(n *messages.KvNode) []cell {
	var used, size, there, missed, in, down, evicted uint64
	var blocks, pinned uint32
	for _, r := range n.GetReplicas() {
		held := r.GetKvBlocks() - r.GetKvBlocksFree() + r.GetKvBlocksCached()
		used, size = used+uint64(held)*r.GetKvBlockBytes(), size+uint64(r.GetKvBlocks())*r.GetKvBlockBytes()
		there, missed = there+r.GetKvHits(), missed+r.GetKvMisses()
		in, down, evicted = in+r.GetKvRestored(), down+r.GetKvOffloaded(), evicted+r.GetKvEvictions()
		blocks, pinned = blocks+held, pinned+r.GetKvBlocksPinned()
	}
	return []cell{
		word(qualifiedName(n.GetNode(), "hbm")), usage(used, size), number(float64(blocks)), number(float64(pinned)),
		number(0), hits(there, missed),
		number(float64(in)), number(float64(down)), number(float64(evicted)), number(0),
		word(count(len(n.GetReplicas()), "replica")),
	}
}

func usage(used, size uint64) cell {
	part := float64(used) / float64(max(1, size))
	return cell{
		text: fmt.Sprintf("%s of %s", units.FormatBytes(int64(used)), units.FormatBytes(int64(size))), number: part,
		share: part,
	}
}

func hits(there, missed uint64) cell { return percent(float64(there) / float64(max(1, there+missed))) }

var pathColumns = []column{
	{name: "PATH"}, {name: "BLOCKS", numeric: true}, {name: "FAILED", numeric: true}, {name: "BYTES", numeric: true},
	{name: "NOW", numeric: true}, {name: "SPEED", numeric: true}, {name: "BLOCK TAKES", numeric: true},
}

// pathSection shows what was copied, and the rate since the previous sample.
func pathSection(before, now KVSample) section {
	then := map[string]uint64{}
	for _, n := range before.GetNodes() {
		for _, p := range n.GetPaths() {
			then[pathName(n, p)] = p.GetBytes()
		}
	}
	seconds := now.Time.Sub(before.Time).Seconds()
	t := section{columns: pathColumns}
	for _, n := range now.GetNodes() {
		for _, p := range n.GetPaths() {
			moving := cell{}
			if before.KvStatsResponse != nil {
				moving = bytesPerSecond(increase(then[pathName(n, p)], p.GetBytes()) / seconds)
			}
			speed, each := cell{}, cell{} // unknown if nothing was copied
			if p.GetBlocks() > 0 {
				speed = bytesPerSecond(float64(p.GetBytes()) / p.GetSeconds())
				each = word(fmt.Sprintf("%.2f ms", 1000*p.GetSeconds()/float64(p.GetBlocks())))
			}
			t.rows = append(t.rows, row{[]cell{
				word(pathName(n, p)), number(float64(p.GetBlocks())), number(float64(p.GetFailed())),
				word(units.FormatBytes(int64(p.GetBytes()))), moving, speed, each,
			}, normal})
		}
	}
	return t
}

func pathName(n *messages.KvNode, p *messages.KvPath) string {
	return qualifiedName(n.GetNode(), p.GetFrom()) + " → " + p.GetTo()
}

func bytesPerSecond(n float64) cell { return word(units.FormatBytes(int64(n)) + "/s") }

var blockColumns = []column{
	{name: "REPLICA"}, {name: "GPU"}, {name: "BLOCKS", numeric: true}, {name: "IN USE", numeric: true},
	{name: "CACHED", numeric: true}, {name: "PINNED", numeric: true},
	{name: "OFFLOADED", numeric: true}, {name: "RESTORED", numeric: true}, {name: "RECOMPUTED", numeric: true},
	{name: "RESTORES", numeric: true}, {name: "AVOIDED", numeric: true}, {name: "NOTE"},
}

// blockSection shows the replicas: blocks in HBM, and the decisions about lower tiers.
func blockSection(s KVSample) section {
	t := section{columns: blockColumns}
	for _, n := range s.GetNodes() {
		for _, r := range n.GetReplicas() {
			note, m := blocksTooLarge(r, n.GetTiers())
			t.rows = append(t.rows, row{[]cell{
				word(r.GetName()), word(qualifiedName(r.GetNode(), r.GetGpu())), number(float64(r.GetKvBlocks())),
				number(float64(r.GetKvBlocks() - r.GetKvBlocksFree())),
				number(float64(r.GetKvBlocksCached())), number(float64(r.GetKvBlocksPinned())),
				number(float64(r.GetKvOffloaded())), number(float64(r.GetKvRestored())),
				number(float64(r.GetKvRecomputed())), number(float64(r.GetKvRestores())),
				number(float64(r.GetKvRestoresAvoided())), word(note),
			}, m})
		}
	}
	return t
}

// blocksTooLarge returns a note if a replica's blocks are too large for a tier of its node.
func blocksTooLarge(r *messages.ReplicaStatus, tiers []*messages.KvTier) (string, severity) {
	for _, t := range tiers {
		if r.GetKvBlockBytes() > t.GetSlotBytes() {
			return fmt.Sprintf(
				"blocks of %s are too large for a tier; enlarge the tier",
				units.FormatBytes(int64(r.GetKvBlockBytes())),
			), warning
		}
	}
	return "", normal
}

func pinSection(s KVSample) section {
	t := section{
		columns: []column{
			{name: "PIN"}, {name: "MODEL"}, {name: "ADAPTER"}, {name: "TENANT"}, {name: "BLOCKS", numeric: true},
		},
	}
	for _, p := range s.GetPins() {
		t.rows = append(t.rows, row{[]cell{
			word(p.GetName()), word(p.GetModel()), word(p.GetAdapter()),
			word(cmp.Or(p.GetTenant(), kv.SharedTenant)), number(float64(p.GetBlocks())),
		}, normal})
	}
	return t
}
