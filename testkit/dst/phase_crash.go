package dst

import (
	"bytes"
	"strings"
	"sync/atomic"
)

// PhaseCrash crashes actors when a preemption enters a phase for the first time: those of the kind Actor,
// one on each node, on their next message. Of replicas, engines and deployments it is one of Model.
type PhaseCrash struct {
	Phase   string // name of the phase, as core/preempt has it
	Actor   string
	After   bool // after handling the message instead of before
	Model   string
	Entered atomic.Int64 // how often a preemption entered the phase
	Crashed atomic.Int64 // how many actors have crashed because of it
	Ended   atomic.Int64 // how often a preemption has ended
}

// line reads a line of a log.
func (p *PhaseCrash) line(c *cluster, line []byte) {
	in := func(phase string) bool { return bytes.Contains(line, []byte(`"phase":"`+phase+`"`)) }
	if !bytes.Contains(line, []byte(`"message":"replica preempting"`)) {
		return
	}
	if in("ended") {
		p.Ended.Add(1)
	}
	if !in(p.Phase) {
		return
	}
	if p.Entered.Add(1) > 1 {
		return
	}
	for _, name := range c.names {
		c.nodes[name].crashInPhase(p)
	}
}

// crashInPhase arms the crash on a node, unless one is due.
func (n *Node) crashInPhase(p *PhaseCrash) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.phaseCrash = p
}

// takePhaseCrash reports whether an actor crashes because of a phase. The caller must hold n.mu.
func (n *Node) takePhaseCrash(kind, id string) bool {
	p := n.phaseCrash
	if p == nil || kind != p.Actor {
		return false
	}
	switch kind {
	case "replica", "engine":
		if !strings.Contains(id, "/"+p.Model+"-") {
			return false
		}
	case "deployment":
		if !strings.HasSuffix(id, "/"+p.Model) {
			return false
		}
	}
	n.phaseCrash = nil
	p.Crashed.Add(1)
	return true
}
