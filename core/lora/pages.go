package lora

// Pages allocates pages of 2 MiB in any order. It is not safe for concurrent use.
type Pages struct {
	free  []uint32 // a stack
	total int
}

// NewPages returns an allocator for the pages of a lease, all of them free.
func NewPages(pages []uint32) *Pages {
	p := &Pages{total: len(pages)}
	p.Free(pages)
	return p
}

// Allocate returns n pages. It reports false and allocates none if fewer are free.
func (p *Pages) Allocate(n int) ([]uint32, bool) {
	at := len(p.free) - n
	if at < 0 {
		return nil, false
	}
	pages := append([]uint32(nil), p.free[at:]...)
	p.free = p.free[:at]
	return pages, true
}

// Reserve allocates specific pages, which an earlier incarnation had allocated. It reports false
// and allocates none if one of them is not free.
func (p *Pages) Reserve(pages []uint32) bool {
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

// Free releases pages.
func (p *Pages) Free(pages []uint32) { p.free = append(p.free, pages...) }

// Available returns the number of free pages.
func (p *Pages) Available() int { return len(p.free) }

// Total returns the number of pages.
func (p *Pages) Total() int { return p.total }
