package route

import (
	"fmt"
	"strings"

	"troupe/core/backend"
)

// maxCandidates is the number of candidates in a Decision.
const maxCandidates = 16

// Decision is the result of routing a request. It is compact, so that a few hundred can be kept,
// and formats its text on demand.
type Decision struct {
	Tokens     int    // of its prompt
	Adapter    string // that it needs; empty: none
	Name       string // of the chosen replica; empty: refused
	OK         bool
	Candidates []Candidate        // the first 16: eligible ones first, then by cost
	Counts     [HasFailed + 1]int // number of replicas by exclusion
}

// Candidate describes a replica as Route saw it.
type Candidate struct {
	Name, Node string
	Cost       int // tokens computed before the request's first output token
	Prefill    int // prompt tokens to compute
	Cached     int // prompt tokens in the replica's blocks
	Running    int
	Waiting    int
	Routed     int // requests sent there since its last report
	Adapter    Residence
	Excluded   Exclusion
	Unreported bool // its backend does not report its blocks, so that Cached is not known
}

// Exclusion is why a replica is not chosen. Candidates are ordered by it, lowest first.
type Exclusion uint8

const (
	Eligible Exclusion = iota
	OverShare
	Avoided
	Finishes // is on standby, but finishes requests with output
	OtherRevision
	CannotResume // its backend does not continue a request with output
	NoAdapters   // its backend has no adapters
	IsSuspended
	IsDraining
	IsLoading
	IsFaulty
	HasFailed
)

// String returns the reason as text; it is empty for Eligible.
func (e Exclusion) String() string {
	return [...]string{"", "has more than its share", "failed this request before",
		"is on standby, and finishes only what was begun",
		"has other weights than those that began the request", "has a backend without " + backend.Resume.String(),
		"has a backend without " + backend.Adapters.String(), "on standby", "draining", "loading", "faulty",
		"failed"}[e]
}

func (t *Routes) candidate(c ranked, tokens int, adapter string) Candidate {
	s := &t.slots[c.slot]
	cached := s.cached(tokens, t.depth[c.slot])
	return Candidate{
		Name: s.Name, Node: s.Node, Cost: c.cost, Prefill: tokens - cached, Cached: cached,
		Running: s.Running, Waiting: s.Waiting, Routed: s.routed, Adapter: s.residence(adapter), Excluded: c.excluded,
		Unreported: s.Lacks.Has(backend.KVEvents),
	}
}

// Ahead returns the number of sequences that the replica had.
func (c Candidate) Ahead() int { return c.Running + c.Waiting + c.Routed }

func (c Candidate) nameAndNode() string {
	if c.Node == "" {
		return c.Name
	}
	return c.Name + " on " + c.Node
}

// Why returns the decision as a sentence: "kjv-1 on node-b: 96 of 128 prompt tokens cached, 3
// sequences ahead; kjv-0 would compute 128".
func (d Decision) Why() string {
	if !d.OK {
		return d.refusal()
	}
	c := d.Candidates[0]
	cached := fmt.Sprintf("%d of %d prompt tokens cached", c.Cached, d.Tokens)
	if c.Unreported {
		cached = fmt.Sprintf("its backend reports no cached blocks (no %s), %d prompt tokens", backend.KVEvents,
			d.Tokens)
	}
	return fmt.Sprintf("%s: %s%s, %s ahead; %s", c.nameAndNode(), c.Adapter.located(d.Adapter), cached,
		sequences(c.Ahead()), d.comparison())
}

// comparison explains why another replica was not chosen: the cheapest one that was excluded, if it
// is cheaper than the chosen one, or else the second choice.
func (d Decision) comparison() string {
	c := d.Candidates[0]
	for _, o := range d.Candidates[1:] {
		if (o.Excluded == OverShare || o.Excluded == Avoided) && o.Cost < c.Cost {
			held := ""
			if o.Adapter > c.Adapter { // the other replica has the adapter closer to its GPU
				held = "the adapter and "
			}
			return fmt.Sprintf("%s has %s%d cached but %s", o.Name, held, o.Cached, o.reason())
		}
	}
	if c.Excluded == Avoided {
		return "it failed this request before, but no other serves"
	}
	if c.Excluded == Finishes {
		return "it is on standby, but no other serves"
	}
	if len(d.Candidates) == 1 || d.Candidates[1].Excluded > Avoided {
		return "no other serves"
	}
	o := d.Candidates[1]
	switch {
	case o.Excluded != Eligible:
		return o.Name + " " + o.reason()
	case o.Cost == c.Cost:
		return o.Name + " would cost the same"
	case o.Ahead() > c.Ahead():
		return fmt.Sprintf(
			"%s would %scompute %d behind %s", o.Name, o.Adapter.loadFirst(), o.Prefill, sequences(o.Ahead()),
		)
	case o.Prefill == c.Prefill && o.Adapter == c.Adapter: // the sequences ahead need more tokens there
		return fmt.Sprintf("%s would compute %d tokens first, not %d", o.Name, o.Cost, c.Cost)
	}
	return fmt.Sprintf("%s would %scompute %d", o.Name, o.Adapter.loadFirst(), o.Prefill)
}

// located describes where the chosen replica has the adapter.
func (r Residence) located(adapter string) string {
	switch r {
	case OnGPU:
		return "adapter " + adapter + " on its GPU, "
	case InDRAM:
		return "adapter " + adapter + " in its DRAM or on its way there, "
	case OnDisk:
		return "adapter " + adapter + " to be read from disk, "
	}
	return ""
}

// loadFirst describes how another replica would load the adapter before it computes.
func (r Residence) loadFirst() string {
	switch r {
	case InDRAM:
		return "copy the adapter from DRAM and "
	case OnDisk:
		return "read the adapter from disk and "
	}
	return ""
}

func (c Candidate) reason() string {
	if c.Excluded == OverShare {
		return fmt.Sprintf("%s, %s", c.Excluded, sequences(c.Ahead()))
	}
	return c.Excluded.String()
}

func (d Decision) refusal() string {
	var parts []string
	for e, n := range d.Counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, Exclusion(e)))
		}
	}
	if parts == nil {
		return "no replica is known"
	}
	return "no replica serves: " + strings.Join(parts, "; ")
}

func sequences(n int) string {
	if n == 1 {
		return "1 sequence"
	}
	return fmt.Sprintf("%d sequences", n)
}
