package simulate

import (
	"slices"
	"strconv"
	"time"
)

// stallTimeout is how long a load of weights waits for bytes of another node, as in the host cache of a node. Then it
// uses another source.
const stallTimeout = 10 * time.Second

// slowdown has the factors by which the faults that last make a link slower.
type slowdown []float64

func (s *slowdown) begin(by float64) { *s = append(*s, by) }

func (s *slowdown) end(by float64) {
	at := slices.Index(*s, by)
	*s = slices.Delete(*s, at, at+1)
}

// factor returns by how much the link is slower.
func (s slowdown) factor() float64 {
	all := 1.0
	for _, by := range s {
		all *= by
	}
	return all
}

// pair has the names of two nodes, in order.
type pair [2]string

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

// faultyLink is what a fault of a link concerns.
type faultyLink struct {
	kind, name string
	pipes      []*pipe
	links      []*link
}

// linkOf returns what the fault of a link concerns.
func (s *simulation) linkOf(f Fault) faultyLink {
	switch {
	case f.Network != "":
		n := s.nodes[f.Network]
		return faultyLink{"network", f.Network, []*pipe{n.network}, []*link{&n.in, &n.out}}
	case f.Disk != "":
		n := s.nodes[f.Disk]
		return faultyLink{"disk", f.Disk, []*pipe{n.disk, n.images}, []*link{&n.read, &n.write}}
	case f.Link != "":
		d := s.deviceNamed(f.Link)
		return faultyLink{"link", f.Link, []*pipe{d.link}, []*link{&d.up, &d.down}}
	}
	a, b := f.Between[0], f.Between[1]
	return faultyLink{"network", a + " and " + b, []*pipe{s.between[pairOf(a, b)]}, nil}
}

// addPairs adds the networks between two nodes of which the scenario has a fault. Without a fault, such a network is
// as fast as those of both nodes.
func (s *simulation) addPairs() {
	s.between = make(map[pair]*pipe)
	for _, f := range s.cfg.Faults {
		if p := pairOf(f.Between[0], f.Between[1]); p[0] != "" {
			s.between[p] = &pipe{bandwidth: min(s.nodes[p[0]].Network, s.nodes[p[1]].Network)}
		}
	}
}

// connected reports whether two nodes reach each other.
func (s *simulation) connected(a, b *node) bool {
	between := s.between[pairOf(a.Name, b.Name)]
	return !a.lost && !b.lost && (between == nil || between.cuts == 0)
}

// reaches reports whether what a process on a node sends is received on another one, or on the same.
func (n *node) reaches(other *node) bool {
	if n == other {
		return n.runs()
	}
	return n.sim.connected(n, other)
}

// network returns what a copy from one node to another uses.
func (s *simulation) network(from, to *node) []*pipe {
	over := []*pipe{from.network, to.network}
	if between := s.between[pairOf(from.Name, to.Name)]; between != nil {
		over = append(over, between)
	}
	return over
}

// failLink makes a link slower, or cuts a network.
func (s *simulation) failLink(f Fault) {
	l := s.linkOf(f)
	why := "it is cut"
	if f.Slow > 0 {
		why = "it is " + strconv.FormatFloat(f.Slow, 'g', -1, 64) + " times slower"
	}
	s.record.note(s.key.at, "fault", l.kind, l.name, "why", why)
	s.copies.change(func() { l.begin(f.Slow) })
	if f.Slow == 0 {
		s.abortStalled(l.pipes[0])
		if n := s.nodes[f.Network]; n != nil {
			n.cutOff()
		}
	}
	if f.For > 0 {
		s.after(f.For, func() { s.mendLink(l, f) })
	}
}

// mendLink ends a fault of a link.
func (s *simulation) mendLink(l faultyLink, f Fault) {
	s.record.note(s.key.at, "mend", l.kind, l.name)
	s.copies.change(func() { l.end(f.Slow) })
	if n := s.nodes[f.Network]; n != nil && n.network.cuts == 0 {
		n.reconnect()
	}
}

func (l faultyLink) begin(slow float64) {
	if slow == 0 {
		l.pipes[0].cuts++
		l.pipes[0].cut++
		return
	}
	for _, p := range l.pipes {
		p.slow.begin(slow)
	}
	for _, one := range l.links {
		one.slow.begin(slow)
	}
}

func (l faultyLink) end(slow float64) {
	if slow == 0 {
		l.pipes[0].cuts--
		return
	}
	for _, p := range l.pipes {
		p.slow.end(slow)
	}
	for _, one := range l.links {
		one.slow.end(slow)
	}
}

// abortStalled ends the copies over a network that is cut, unless it is mended in time.
func (s *simulation) abortStalled(p *pipe) {
	cut := p.cut
	for _, stalls := range []time.Duration{stallTimeout, silentAfter} {
		s.after(stalls, func() {
			if p.cuts == 0 || p.cut != cut {
				return
			}
			for _, one := range slices.Clone(s.copies.all) {
				if one.stalls == stalls && slices.Contains(one.pipes, p) {
					s.copies.abort(one)
				}
			}
		})
	}
}
