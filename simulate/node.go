package simulate

import (
	"math"
	"time"
)

// Node has what the devices of a node share. A node that Config does not have has none of it.
type Node struct {
	Name      string
	HostCache int64 // bytes of host memory for images of adapters; 0: they are read from disk each time
	DiskRead  Link
	DiskWrite Link
	Tiers     Tiers
}

// Link is what copies go over, one after another. One without a bandwidth takes only the latency.
type Link struct {
	BytesPerSecond float64
	Latency        time.Duration // of each copy
}

// link is a link with the time from which on it is free.
type link struct {
	Link
	sim  *simulation
	free time.Time
}

// begin takes the link for a copy, and returns when the copy begins and ends.
func (l *link) begin(bytes int64) (begins, ends time.Time) {
	begins = l.sim.key.at
	if l.free.After(begins) {
		begins = l.free
	}
	l.free = begins.Add(l.time(bytes))
	return begins, l.free
}

// time returns how long a copy takes once it begins.
func (l *link) time(bytes int64) time.Duration {
	if l.BytesPerSecond == 0 {
		return l.Latency
	}
	return l.Latency + time.Duration(math.Round(float64(bytes)/l.BytesPerSecond*1e9))
}

// copy calls a function when a copy over the link has ended.
func (l *link) copy(bytes int64, ended func()) {
	_, ends := l.begin(bytes)
	l.sim.after(ends.Sub(l.sim.key.at), ended)
}

// node is a node of the simulation.
type node struct {
	Node
	read, write link // of its disk
	images      *hostImages
	tiers       []*kvTier // the fastest first
}

// nodeOf returns a node by its name. Without one in Config it has no host cache and an infinitely fast disk.
func (s *simulation) nodeOf(name string) *node {
	if n := s.nodes[name]; n != nil {
		return n
	}
	n := &node{Node: Node{Name: name}}
	for _, given := range s.cfg.Nodes {
		if given.Name == name {
			n.Node = given
		}
	}
	n.read, n.write = link{Link: n.DiskRead, sim: s}, link{Link: n.DiskWrite, sim: s}
	if n.HostCache > 0 {
		n.images = newHostImages(n.HostCache)
	}
	n.tiers = s.newTiers(n)
	s.nodes[name] = n
	return n
}
