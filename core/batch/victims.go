package batch

// yielding collects the running sequences that give way to one that waits.
type yielding struct {
	*Scheduler
	seq    *sequence
	blocks int // that it takes
	all    []*sequence
	places int // free with all of them gone
	gain   int // blocks, likewise; shared ones count for each
}

func (y *yielding) enough() bool { return y.places > 0 && y.gain >= y.blocks }

func (y *yielding) take(r *sequence) {
	y.all = append(y.all, r)
	y.places++
	y.gain += len(r.table)
}

// yields returns the running sequences that may give way to one that waits and takes so many blocks, the first to do so
// first: those of lower classes, then those of clients that hold more of the same class. A client gives way only as long
// as it keeps at least what the waiting one has after the exchange, by weight; so they do not take turns at it. Yields
// returns nothing where all of them together would not be enough.
func (s *Scheduler) yields(seq *sequence, blocks int) []*sequence {
	y := yielding{Scheduler: s, seq: seq, blocks: blocks, places: s.places() - len(s.running), gain: s.pool.Free()}
	for i := len(s.running) - 1; i >= 0 && s.running[i].Class < seq.Class; i-- {
		y.take(s.running[i])
	}
	if !y.enough() && len(s.shares.accounts) > 1 {
		y.exchange()
	}
	if !y.enough() {
		return nil
	}
	return y.all
}

// holding is what the running sequences of one client in one class hold.
type holding struct{ places, blocks float64 }

// holdings counts what runs, by client and class.
func (s *Scheduler) holdings() map[*account]*holding {
	all := make(map[*account]*holding)
	for _, seq := range s.running {
		h := all[seq.account]
		if h == nil {
			h = &holding{}
			all[seq.account] = h
		}
		h.places++
		h.blocks += float64(len(seq.table))
	}
	return all
}

// exchange takes sequences of the same class: the last of the client that holds the most of what is short.
func (y *yielding) exchange() {
	held := y.holdings()
	own := held[y.seq.account]
	if own == nil {
		own = &holding{}
	}
	gone := make(map[*sequence]bool)
	for !y.enough() {
		short, entitled := func(h *holding) float64 { return h.blocks }, own.blocks+float64(y.blocks)
		if y.places <= 0 {
			short, entitled = func(h *holding) float64 { return h.places }, own.places+1
		}
		victim := y.holder(held, gone, short)
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
		y.take(victim)
	}
}

// holder returns the last sequence of the client of the same class that holds the most; nil: no other client holds any.
func (y *yielding) holder(held map[*account]*holding, gone map[*sequence]bool, short func(*holding) float64) (found *sequence) {
	var most float64
	for i := len(y.running) - 1; i >= 0; i-- {
		r := y.running[i]
		if r.Class != y.seq.Class || r.account == y.seq.account || gone[r] {
			continue
		}
		if part := short(held[r.account]) / r.account.weight; part > most {
			found, most = r, part
		}
	}
	return found
}

// heaviest returns the running sequence that gives way where a running one needs a block: of the lowest class, the last
// of the client that holds the most blocks by its weight.
func (s *Scheduler) heaviest() *sequence {
	last := s.running[len(s.running)-1]
	if len(s.shares.accounts) == 1 {
		return last
	}
	held, victim := s.holdings(), last
	for i := len(s.running) - 1; i >= 0 && s.running[i].Class == last.Class; i-- {
		r := s.running[i]
		if held[r.account].blocks/r.account.weight > held[victim.account].blocks/victim.account.weight {
			victim = r
		}
	}
	return victim
}
