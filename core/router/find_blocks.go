package router

import (
	"slices"
	"strings"
	"time"
)

// maxRuns limits the runs in an answer: blocks spread over more holders are not worth fetching.
const maxRuns = 8

// tierName identifies a tier in the cluster.
type tierName struct{ node, tier string }

func (n tierName) String() string { return n.tier + " on " + n.node }

// TierReported handles the report of a tier of this node.
func (m *Machine) TierReported(t TierReport) []Effect {
	m.applyTier(m.node, t)
	m.share()
	return m.take()
}

func (m *Machine) applyTier(node string, t TierReport) {
	name := tierName{node, t.Name}
	m.tiers[name] = t.Actor
	if t.Snapshot {
		m.blocks.Remove(name.String())
	}
	m.blocks.Update(name.String(), t.Evicted, t.Committed)
}

// tiersOf returns the tiers of a node, sorted by name.
func (m *Machine) tiersOf(node string) []tierName {
	var all []tierName
	for name := range m.tiers {
		if name.node == node {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b tierName) int { return strings.Compare(a.tier, b.tier) })
	return all
}

func (m *Machine) forgetTiers(node string) {
	for _, name := range m.tiersOf(node) {
		delete(m.tiers, name)
		m.blocks.Remove(name.String())
	}
}

// localTiers returns snapshots of the tiers of this node.
func (m *Machine) localTiers() (all []TierReport) {
	for _, name := range m.tiersOf(m.node) {
		held := m.blocks.BlocksOf(name.String())
		all = append(all, TierReport{
			Name: name.tier, Actor: m.tiers[name], Committed: held[:min(len(held), snapshotBlocks)], Snapshot: true,
		})
	}
	return all
}

// Query asks for holders of the KV blocks that a replica lacks.
type Query struct {
	ID, Model, Replica string
	Blocks             []uint64 // in prompt order, as replicas announce them
	InTiers            []uint64 // the same blocks, as tiers announce them
}

// Run is a run of consecutive blocks of a Query, and their holder.
type Run struct {
	First, Blocks int
	Name, Node    string // "replica kjv-0 on b", "dram on b"
	Holder        Actor
}

// Find returns holders for the leading blocks of a prompt, up to the first block without a holder.
// Each run names the holder that has the most of the blocks that follow. If a replica and a tier
// have equally many, Find names the replica, because HBM is faster. It ignores the tiers of this
// node, which the replica asks itself, and nodes that are not heard from.
func (m *Machine) Find(q Query, now time.Time) (runs []Run) {
	m.age(now)
	remote := m.remoteTiers()
	n := min(len(q.Blocks), len(q.InTiers))
	blocks, inTiers := q.Blocks[:n], q.InTiers[:n]
	for i := 0; len(runs) < maxRuns; {
		run := m.inTier(remote, inTiers[i:], q.ID)
		if r := m.inReplica(q, blocks[i:]); r.Blocks > 0 && r.Blocks >= run.Blocks {
			run = r
		}
		if run.Blocks == 0 {
			break
		}
		run.First = i
		runs = append(runs, run)
		i += run.Blocks
	}
	return runs
}

// inTier returns the remote tier with the most leading blocks.
func (m *Machine) inTier(remote map[string]tierName, blocks []uint64, asker string) Run {
	name, n := m.blocks.LongestPrefix(blocks, asker, func(name string) bool {
		_, ok := remote[name]
		return ok
	})
	at := remote[name]
	return Run{Blocks: n, Name: name, Node: at.node, Holder: m.tiers[at]}
}

// inReplica returns the replica with the most leading blocks.
func (m *Machine) inReplica(q Query, blocks []uint64) Run {
	t := m.models[q.Model]
	if t == nil {
		return Run{}
	}
	name, n := t.routes.LongestPrefix(blocks, q.ID, func(name string) bool {
		return name != q.Replica && !m.silent(t.replicas[name].node)
	})
	holder := t.replicas[name]
	return Run{Blocks: n, Name: "replica " + name + " on " + holder.node, Node: holder.node, Holder: holder.actor}
}

// remoteTiers returns the tiers of other nodes that are heard from, by tierName.String.
func (m *Machine) remoteTiers() map[string]tierName {
	all := make(map[string]tierName)
	for name := range m.tiers {
		if name.node != m.node && !m.silent(name.node) {
			all[name.String()] = name
		}
	}
	return all
}
