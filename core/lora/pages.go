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

// Reservable reports whether pages are all free, and none is listed twice.
func (p *Pages) Reservable(pages []uint32) bool {
	_, ok := p.without(pages)
	return ok
}

// Reserve allocates specific pages, which an earlier incarnation had allocated. It reports false
// and allocates none if one of them is not free.
func (p *Pages) Reserve(pages []uint32) bool {
	rest, ok := p.without(pages)
	if ok {
		p.free = rest
	}
	return ok
}

// without returns the free pages except the given ones. It returns false if one of those is not
// free or is listed twice.
func (p *Pages) without(pages []uint32) ([]uint32, bool) {
	taken := make(map[uint32]bool, len(pages))
	for _, page := range pages {
		taken[page] = true
	}
	rest := make([]uint32, 0, len(p.free))
	for _, page := range p.free {
		if !taken[page] {
			rest = append(rest, page)
		}
	}
	return rest, len(rest)+len(pages) == len(p.free)
}

// Free releases pages.
func (p *Pages) Free(pages []uint32) { p.free = append(p.free, pages...) }

// Add adds pages, which are free.
func (p *Pages) Add(pages []uint32) {
	p.total += len(pages)
	p.Free(pages)
}

// Remove removes n free pages and returns them.
func (p *Pages) Remove(n int) []uint32 {
	pages, _ := p.Allocate(n)
	p.total -= len(pages)
	return pages
}

// Available returns the number of free pages.
func (p *Pages) Available() int { return len(p.free) }

// Total returns the number of pages.
func (p *Pages) Total() int { return p.total }
