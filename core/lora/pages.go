package lora

// Pages gives out pages of 2 MiB in any order. It is not safe for concurrent use.
type Pages struct {
	free  []uint32 // a stack
	total int
}

// NewPages returns the account of the pages of a lease, all free.
func NewPages(pages []uint32) *Pages {
	p := &Pages{total: len(pages)}
	p.Free(pages)
	return p
}

// Allocate returns n pages, or reports false where fewer are free. Nothing is given in part.
func (p *Pages) Allocate(n int) ([]uint32, bool) {
	at := len(p.free) - n
	if at < 0 {
		return nil, false
	}
	pages := append([]uint32(nil), p.free[at:]...)
	p.free = p.free[:at]
	return pages, true
}

// Take takes certain pages: those that a predecessor gave out. It reports false, and takes none, where one is not free.
func (p *Pages) Take(pages []uint32) bool {
	wanted := make(map[uint32]bool, len(pages))
	for _, page := range pages {
		wanted[page] = true
	}
	rest := make([]uint32, 0, len(p.free))
	for _, page := range p.free {
		if !wanted[page] {
			rest = append(rest, page)
		}
	}
	if len(wanted) != len(pages) || len(rest)+len(pages) != len(p.free) {
		return false
	}
	p.free = rest
	return true
}

// Free gives pages back.
func (p *Pages) Free(pages []uint32) { p.free = append(p.free, pages...) }

// Left is how many are free.
func (p *Pages) Left() int { return len(p.free) }

// Total is how many there are.
func (p *Pages) Total() int { return p.total }
