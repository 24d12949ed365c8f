package batch

import "slices"

// preempt takes a running sequence's blocks and requeues it.
func (p *planning) preempt(victim *sequence, why string) {
	if victim.restoring {
		p.restoreFailed(victim)
	} else {
		remove(&p.running, victim)
		p.saveBlocks(victim)
		p.adapters.unpin(victim.Request)
		victim.state, victim.table, victim.computed, victim.committed = Preempted, nil, 0, 0
		insert(&p.waiting, victim)
	}
	p.step.Preempted = append(p.step.Preempted, Preemption{ID: victim.ID, Why: why})
	p.step.Entries = slices.DeleteFunc(p.step.Entries, func(e Entry) bool {
		if e.sequence != victim {
			return false
		}
		p.spend(victim, e.Position, -len(e.Tokens))
		victim.inStep = false
		return true
	})
}

// displace preempts victims until the waiting sequence fits. It does nothing if all victims
// together would not suffice.
func (p *planning) displace(seq *sequence, blocks int, fits func() bool) bool {
	for _, victim := range p.victims(seq, blocks) {
		why := "preempted for " + seq.ID + " of a higher class"
		if victim.Class == seq.Class {
			why = "preempted for " + seq.ID + ", whose client holds less"
		}
		p.preempt(victim, why)
		if fits() {
			return true
		}
	}
	return false // the freed blocks are still being read, or are reserved
}

// victimSet collects the running sequences to preempt for a waiting one.
type victimSet struct {
	*Scheduler
	seq        *sequence
	blocks     int // blocks that seq needs
	victims    []*sequence
	freePlaces int // free places with all victims preempted
	freeBlocks int // free blocks likewise; shared ones count for each victim
}

func (y *victimSet) enough() bool { return y.freePlaces > 0 && y.freeBlocks >= y.blocks }

func (y *victimSet) add(r *sequence) {
	y.victims = append(y.victims, r)
	y.freePlaces++
	y.freeBlocks += len(r.table)
}

// victims returns the running sequences to preempt, in order, so that a waiting sequence gets the
// given number of blocks. Sequences of lower classes come first, then those of clients of the same
// class that hold more. Relative to its weight, such a client keeps at least what the waiting
// client has after the exchange; otherwise the two would preempt each other in turn. victims
// returns nil if preempting all of them would not suffice.
func (s *Scheduler) victims(seq *sequence, blocks int) []*sequence {
	y := victimSet{Scheduler: s, seq: seq, blocks: blocks, freePlaces: s.runLimit() - len(s.running),
		freeBlocks: s.pool.Free()}
	for i := len(s.running) - 1; i >= 0 && s.running[i].Class < seq.Class; i-- {
		y.add(s.running[i])
	}
	if !y.enough() && len(s.shares.accounts) > 1 {
		y.addFromLargerClients()
	}
	if !y.enough() {
		return nil
	}
	return y.victims
}

// usage is what the running sequences of one client in one class use.
type usage struct{ places, blocks float64 }

// usageByClient returns the usage of the running sequences by client and class.
func (s *Scheduler) usageByClient() map[*account]*usage {
	all := make(map[*account]*usage)
	for _, seq := range s.running {
		h := all[seq.account]
		if h == nil {
			h = &usage{}
			all[seq.account] = h
		}
		h.places++
		h.blocks += float64(len(seq.table))
	}
	return all
}

// addFromLargerClients adds sequences of the same class: each time the last one of the client that
// holds the most of what is short.
func (y *victimSet) addFromLargerClients() {
	held := y.usageByClient()
	own := held[y.seq.account]
	if own == nil {
		own = &usage{}
	}
	gone := make(map[*sequence]bool)
	for !y.enough() {
		short, entitled := func(h *usage) float64 { return h.blocks }, own.blocks+float64(y.blocks)
		if y.freePlaces <= 0 {
			short, entitled = func(h *usage) float64 { return h.places }, own.places+1
		}
		victim := y.lastOfLargestClient(held, gone, short)
		if victim == nil {
			return
		}
		h := held[victim.account]
		h.places--
		h.blocks -= float64(len(victim.table))
		if short(h)/victim.account.weight < entitled/y.seq.account.weight {
			return
		}
		gone[victim] = true
		y.add(victim)
	}
}

// lastOfLargestClient returns the last running sequence of the client that uses the most relative
// to its weight, among the other clients of the same class. It returns nil if there is none.
func (y *victimSet) lastOfLargestClient(held map[*account]*usage, gone map[*sequence]bool,
	short func(*usage) float64) (found *sequence) {
	var most float64
	for i := len(y.running) - 1; i >= 0; i-- {
		r := y.running[i]
		if r.Class != y.seq.Class || r.account == y.seq.account || gone[r] {
			continue
		}
		if share := short(held[r.account]) / r.account.weight; share > most {
			found, most = r, share
		}
	}
	return found
}

// preemptionVictim returns the sequence to preempt when a running one needs a block: the last
// sequence, within the lowest class, of the client with the most blocks relative to its weight.
func (s *Scheduler) preemptionVictim() *sequence {
	last := s.running[len(s.running)-1]
	if len(s.shares.accounts) == 1 {
		return last
	}
	held, victim := s.usageByClient(), last
	for i := len(s.running) - 1; i >= 0 && s.running[i].Class == last.Class; i-- {
		r := s.running[i]
		if held[r.account].blocks/r.account.weight > held[victim.account].blocks/victim.account.weight {
			victim = r
		}
	}
	return victim
}
