package lora

// resizing is how the number of pages of a Pool changes.
type resizing struct {
	wanted  int  // pages that were requested and are not granted yet; loads in line count on them
	refused bool // the last request was refused; no pages are requested until Retry
	// shrinking is true from Shrink to Granted or NotGranted.
	shrinking bool
	confirmed bool // Shrunk was emitted
	owed      int  // pages to give back before any load in line gets pages
}

// mayGrow reports whether the pool may request pages.
func (p *Pool) mayGrow() bool { return p.cfg.Grow && !p.refused && !p.shrinking }

// shortage returns the number of pages that are missing for all loads in line and those that the pool has
// to give back. It is negative if there are more.
func (p *Pool) shortage() int {
	return p.pendingPages + p.owed - p.pages.Available() - p.evictingPages - p.wanted
}

// Shrink makes the pool give back pages until it has the given number: free ones, and those of idle
// adapters. Loads in line get no pages before that. Adapters in use stay until their requests have ended.
// A repeated call is answered again.
func (p *Pool) Shrink(pages int) {
	p.shrinking, p.confirmed, p.wanted = true, false, 0
	p.owed = max(0, p.pages.Total()-pages)
	p.settle()
}

// Wanted returns the number of pages that were requested and are not granted yet.
func (p *Pool) Wanted() int { return p.wanted }

// Shrinking reports whether the pool follows a Shrink.
func (p *Pool) Shrinking() bool { return p.shrinking }

// TotalPages returns the number of pages, without those that were given back.
func (p *Pool) TotalPages() int { return p.pages.Total() }

// UsedPages returns the number of pages of adapters that are in use or being loaded.
func (p *Pool) UsedPages() (n int) {
	for _, a := range p.adapters {
		if a.state == Active || a.state == Loading {
			n += len(a.pages)
		}
	}
	return n
}

// Granted reports all pages that the pool has now, after a change of their number or a refusal of it. Those
// that were given back may be among them.
func (p *Pool) Granted(pages []uint32) {
	added := p.unknown(pages)
	p.pages.Add(added)
	if p.wanted > 0 && len(added) == 0 {
		p.refused = true
	}
	if p.wanted -= len(added); p.wanted < 0 || len(added) == 0 {
		p.wanted = 0
	}
	p.shrinking, p.owed = false, 0
	if p.wanted > 0 {
		p.emit(Grow{p.wanted})
	}
	p.settle()
}

// NotGranted reports that no answer to a Grow came in time.
func (p *Pool) NotGranted() {
	p.wanted, p.refused = 0, true
	p.settle()
}

// Retry lets the pool request pages again after a refusal.
func (p *Pool) Retry() { p.refused = false }

// unknown returns those pages that the pool does not have.
func (p *Pool) unknown(pages []uint32) (added []uint32) {
	known := make(map[uint32]bool)
	for _, page := range p.pages.free {
		known[page] = true
	}
	for _, a := range p.adapters {
		for _, page := range a.pages {
			known[page] = true
		}
	}
	for _, page := range pages {
		if !known[page] {
			added = append(added, page)
			known[page] = true
		}
	}
	return added
}

// giveBack gives back free pages that the pool owes, and confirms the last of them.
func (p *Pool) giveBack() {
	if n := min(p.owed, p.pages.Available()); n > 0 {
		p.owed -= n
		p.emit(GiveBack{p.pages.Remove(n)})
	}
	if p.shrinking && p.owed == 0 && !p.confirmed {
		p.confirmed = true
		p.emit(Shrunk{})
	}
}
